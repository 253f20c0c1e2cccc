"""Problem 64: continuous batching. The page is in pages/p64_continuous_batching.md."""

from collections.abc import Callable, Mapping, Sequence

from jaxtyping import Array, Float, Int


class Scheduler:
    """Which tokens of which sequences the next step of a model computes."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        token_budget: int,
        max_running: int,
    ):
        raise NotImplementedError

    def add(self, name: str, num_tokens: int) -> None:
        """A new sequence, whose prompt has `num_tokens` tokens. It waits behind
        those that wait already."""
        raise NotImplementedError

    def schedule(self) -> list[tuple[str, int, int]]:
        """The work of the next step: (name, position of the first token to compute,
        how many), in any order."""
        raise NotImplementedError

    def append(self, name: str) -> None:
        """The model has written one more token of a running sequence, whose tokens
        so far are all computed."""
        raise NotImplementedError

    def finish(self, name: str) -> None:
        """Ends a sequence, which runs or waits."""
        raise NotImplementedError

    def free_blocks(self) -> int:
        """How many blocks are free."""
        raise NotImplementedError


def batched_attention(
    q: Float[Array, "N H K"],
    k: Float[Array, "N H K"],
    v: Float[Array, "N H K"],
    keys: Float[Array, "R L H K"],
    values: Float[Array, "R L H K"],
    rows: Int[Array, "N"],
    positions: Int[Array, "N"],
) -> tuple[Float[Array, "N H K"], Float[Array, "R L H K"], Float[Array, "R L H K"]]:
    """The attention of N tokens of several sequences to their rows of the cache, and
    the cache with the new keys and values."""
    raise NotImplementedError


def serve(
    run: Callable[[list[tuple[str, int, list[int]]]], Mapping[str, int]],
    requests: Sequence[tuple[int, str, list[int], int]],
    scheduler: Scheduler,
    end_id: int,
) -> dict[str, list[int]]:
    """The answers by name. A request is (step of its arrival, name, prompt, maximal
    number of tokens of the answer)."""
    raise NotImplementedError
