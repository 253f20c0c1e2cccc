"""Problem 64, reference: continuous batching."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Work = list[tuple[str, int, int]]


@dataclass(eq=False)
class State:
    """A sequence: how many tokens it has, how many of them are computed, and how many blocks it holds."""

    name: str
    tokens: int
    computed: int = 0
    blocks: int = 0


class Scheduler:
    """Which tokens of which sequences the next step computes (Yu et al. 2022, Orca; Agrawal et al. 2023, chunked
    prefill)."""

    def __init__(self, num_blocks: int, block_size: int, token_budget: int, max_running: int):
        self.free, self.block_size = num_blocks, block_size
        self.token_budget, self.max_running = token_budget, max_running
        self.waiting: deque[State] = deque()
        self.running: list[State] = []

    def add(self, name: str, num_tokens: int) -> None:
        """The last place in the queue."""
        self.waiting.append(State(name, num_tokens))

    def append(self, name: str) -> None:
        """One token more to compute."""
        self.find(name).tokens += 1

    def finish(self, name: str) -> None:
        """Its blocks are free."""
        sequence = self.find(name)
        (self.running if sequence in self.running else self.waiting).remove(sequence)
        self.free += sequence.blocks

    def schedule(self) -> Work:
        """Running sequences first, oldest first, then those that wait."""
        work: Work = []
        budget = self.token_budget
        for sequence in list(self.running):
            while sequence in self.running and self.missing(sequence) > self.free:
                self.evict()
            if sequence in self.running:
                budget -= self.compute(sequence, budget, work)
        while self.waiting and budget > 0 and len(self.running) < self.max_running:
            if self.missing(self.waiting[0]) > self.free:
                break  # nobody overtakes it
            self.running.append(self.waiting.popleft())
            budget -= self.compute(self.running[-1], budget, work)
        return work

    def find(self, name: str) -> State:
        """The sequence of this name."""
        return next(each for each in (*self.running, *self.waiting) if each.name == name)

    def missing(self, sequence: State) -> int:
        """The number of blocks that its tokens need and it does not hold."""
        return -(-sequence.tokens // self.block_size) - sequence.blocks

    def compute(self, sequence: State, budget: int, work: Work) -> int:
        """Takes the missing blocks and adds to the work what the budget allows. Returns the number of tokens."""
        missing = self.missing(sequence)
        self.free, sequence.blocks = self.free - missing, sequence.blocks + missing
        count = min(sequence.tokens - sequence.computed, budget)
        work.append((sequence.name, sequence.computed, count))
        sequence.computed += count
        return count

    def evict(self) -> None:
        """The newest sequence loses its blocks, so all of its tokens have to be computed again. It waits in front."""
        newest = self.running.pop()
        self.free += newest.blocks
        newest.blocks = newest.computed = 0
        self.waiting.appendleft(newest)

    def free_blocks(self) -> int:
        """The blocks that no sequence holds."""
        return self.free


def batched_attention(
    q: Float[Array, "N H K"],
    k: Float[Array, "N H K"],
    v: Float[Array, "N H K"],
    keys: Float[Array, "R L H K"],
    values: Float[Array, "R L H K"],
    rows: Int[Array, "N"],
    positions: Int[Array, "N"],
) -> tuple[Float[Array, "N H K"], Float[Array, "R L H K"], Float[Array, "R L H K"]]:
    """Writes all tokens first. Then each one sees its own row, up to its own position."""
    (R, L), K = keys.shape[:2], q.shape[-1]
    used_N = rows >= 0
    places = jnp.where(used_N, rows, R), positions  # row R does not exist, so nothing is written
    keys = keys.at[places].set(k, mode="drop")
    values = values.at[places].set(v, mode="drop")
    visible_NL = (jnp.arange(L) <= positions[:, None]) & used_N[:, None]
    scores_NHL = jnp.einsum("nhk,nlhk->nhl", q, keys[rows]) / jnp.sqrt(K)
    weights_NHL = jax.nn.softmax(jnp.where(visible_NL[:, None], scores_NHL, -jnp.inf))
    values_NLHK = jnp.where(visible_NL[..., None, None], values[rows], 0.0)  # 0 times NaN is NaN
    out_NHK = jnp.einsum("nhl,nlhk->nhk", weights_NHL, values_NLHK)
    return jnp.where(used_N[:, None, None], out_NHK, 0.0), keys, values


def serve(
    run: Callable[[list[tuple[str, int, list[int]]]], Mapping[str, int]],
    requests: Sequence[tuple[int, str, list[int], int]],
    scheduler: Scheduler,
    end_id: int,
) -> dict[str, list[int]]:
    """Step by step, until all requests have their answers. A token counts if all tokens before it are computed."""
    token_ids: dict[str, list[int]] = {}
    answers: dict[str, list[int]] = {}
    step = unfinished = 0
    while unfinished or step <= max((arrival for arrival, *_ in requests), default=-1):
        for arrival, name, prompt, _ in requests:
            if arrival == step:
                scheduler.add(name, len(prompt))
                token_ids[name], answers[name] = list(prompt), []
                unfinished += 1
        work = scheduler.schedule()
        batch = [(name, start, token_ids[name][start : start + count]) for name, start, count in work]
        following = run(batch) if batch else {}
        longest = {name: most for _, name, _, most in requests}
        for name, start, count in work:
            if start + count < len(token_ids[name]):
                continue  # the prompt is not complete
            token_id = int(following[name])
            if token_id != end_id:
                answers[name].append(token_id)
                token_ids[name].append(token_id)
            if token_id == end_id or len(answers[name]) == longest[name]:
                scheduler.finish(name)
                unfinished -= 1
            else:
                scheduler.append(name)
        step += 1
    return answers
