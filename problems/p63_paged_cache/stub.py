"""Problem 63: a paged cache. The page is in pages/p63_paged_cache.md."""

from jaxtyping import Array, Float, Int


class BlockManager:
    """Which blocks of a cache belong to which sequences."""

    def __init__(self, num_blocks: int, block_size: int):
        raise NotImplementedError

    def start(self, name: str, num_tokens: int) -> None:
        """Takes blocks for a new sequence of `num_tokens` tokens. Raises MemoryError,
        and takes none, if there are too few."""
        raise NotImplementedError

    def append(self, name: str) -> tuple[int, int, int]:
        """The place of one more token: (block, offset in it, block to copy from first
        or -1). Raises MemoryError."""
        raise NotImplementedError

    def fork(self, name: str, new_name: str) -> None:
        """A second sequence with the same tokens, which shares all blocks."""
        raise NotImplementedError

    def free(self, name: str) -> None:
        """Ends a sequence. Blocks that no other sequence uses are free again."""
        raise NotImplementedError

    def table(self, name: str) -> list[int]:
        """The blocks of a sequence, in order."""
        raise NotImplementedError

    def free_blocks(self) -> int:
        """How many blocks are free."""
        raise NotImplementedError


def paged_attention(
    q: Float[Array, "H K"],
    key_blocks: Float[Array, "B S H K"],
    value_blocks: Float[Array, "B S H K"],
    table: Int[Array, "M"],
    length: Int[Array, ""],
) -> Float[Array, "H K"]:
    """The attention of one query to the first `length` tokens of a sequence,
    whose blocks `table` names."""
    raise NotImplementedError
