"""Problem 83: a prefix tree of cached blocks.

The page is in pages/p83_prefix_tree.md.
"""


class RadixCache:
    """Which beginnings of sequences are cached, in full blocks, and who uses them."""

    def __init__(self, num_blocks: int, block_size: int):
        raise NotImplementedError

    def match(self, token_ids: list[int]) -> list[int]:
        """The blocks of the longest beginning that is cached, in order. Changes
        nothing."""
        raise NotImplementedError

    def insert(self, name: str, token_ids: list[int]) -> tuple[list[int], int]:
        """Caches all full blocks of a sequence, which uses them until it is released.
        Returns (its blocks, how many of them were cached). Raises MemoryError, and
        changes nothing, if there is no room."""
        raise NotImplementedError

    def release(self, name: str) -> None:
        """The sequence no longer uses its blocks. They stay cached."""
        raise NotImplementedError

    def evict(self, count: int) -> list[int]:
        """Frees up to `count` blocks that nobody uses. Returns them in the
        order of their eviction."""
        raise NotImplementedError

    def free_blocks(self) -> int:
        """How many blocks hold nothing."""
        raise NotImplementedError


class TwoPools:
    """Which worker computes which prompt, and which one then decodes the answer."""

    def __init__(
        self,
        prompt_caches: list[RadixCache],
        decode_caches: list[RadixCache],
        block_size: int,
        max_running: int,
    ):
        raise NotImplementedError

    def add(self, name: str, token_ids: list[int]) -> None:
        """A prompt waits, behind those that wait already."""
        raise NotImplementedError

    def schedule(
        self,
    ) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int, int]]]:
        """What begins now: prompts as (name, prompt worker, first position
        to compute), and moves as (name, prompt worker, decode worker, number
        of tokens that are sent)."""
        raise NotImplementedError

    def computed(self, name: str) -> None:
        """Its prompt worker has computed the whole prompt."""
        raise NotImplementedError

    def finish(self, name: str, token_ids: list[int]) -> None:
        """The answer is complete. `token_ids` are those of the
        prompt and of the answer."""
        raise NotImplementedError
