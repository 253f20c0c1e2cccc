"""Continuous batching: rows of a program of one shape, each of which takes the next prompt as soon as its text has
ended.

Rows share a paged cache. A prompt that several continuations have in a row runs once, and they share its blocks. If no
block is free, the newest text is put back, and is computed again later. The tokens are those of `generate_batch`.
"""

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.model.gpt import GPT
from harness.model.paged_cache import (
    BlockManager,
    Manager,
    PagedAttend,
    PagedCache,
    empty_blocks,
    paged_attention,
)
from harness.model.sampling import ChooseToken, Sampling, choose_token, sample_key

CHUNK = 64  # the most tokens of a prompt that run together
KEPT = "prompt"  # the name of the prompt whose continuations are not all running yet


@dataclass(frozen=True)
class Paging:
    """The sizes of a paged cache, and the code that manages and reads it. With 0 rows, their number follows from the
    blocks."""

    blocks: int
    block_size: int = 16
    rows: int = 0
    steps: int = 8  # tokens of each row in a call of the device; a row that has ended waits for the others
    make_manager: Callable[[int, int], Manager] = BlockManager
    attention: PagedAttend = paged_attention
    choose: ChooseToken = choose_token

    def rows_for(self, texts: int, context: int) -> int:
        """How many of the texts run together: by default, as many as have blocks if each is half as long as the
        context."""
        return min(texts, self.rows or max(2 * self.blocks * self.block_size // context, 1))


@dataclass(eq=False)
class _Text:
    """A prompt with the tokens that were sampled after it."""

    number: int
    group: int  # the same for texts of one prompt
    prompt: list[int]
    most: int  # tokens that may follow
    tokens: list[int] = field(default_factory=list)
    places: int = 0  # taken for the tokens of the next call
    copy: tuple[int, int] | None = None  # of a block to another, before the next call

    @property
    def name(self) -> str:
        return str(self.number)

    @property
    def numbers(self) -> tuple[int, ...]:
        """What the next call gets: the first token to run, its position, the sample, the index of the next token, their
        count."""
        last = (self.prompt + self.tokens)[-1]
        return last, len(self.prompt) + len(self.tokens) - 1, self.number, len(self.tokens), self.places


def generate_paged(
    model: GPT,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    end_of_text: int,
    numbers: Iterable[int],
    width: int,
    paging: Paging,
) -> list[list[int]]:
    """The tokens after each prompt, up to end-of-text (not included), `max_tokens`, or the end of the context. Prompt i
    is sample number i of `numbers` of the seed. They increase.

    Prompts have 1 to `width` tokens. Batches of one width and size share programs. Raises MemoryError if the manager
    has too few blocks for one text.
    """
    starts = [a != b for a, b in itertools.pairwise([None, *map(tuple, prompts)])]
    groups = itertools.accumulate(starts)
    most = [min(sampling.max_tokens, model.config.context + 1 - len(prompt)) for prompt in prompts]
    texts = [_Text(*each) for each in zip(numbers, groups, map(list, prompts), most, strict=False)]
    _Engine(model, texts, sampling, end_of_text, paging, chunk=min(CHUNK, width)).run()
    return [text.tokens for text in texts]


class _Engine:
    """The texts that wait, the row of each that runs, and the blocks of their cache."""

    def __init__(
        self, model: GPT, texts: list[_Text], sampling: Sampling, end_of_text: int, paging: Paging, chunk: int
    ):
        config = model.config
        graph, self._parameters = nnx.split(model)
        self._end, self._paging = end_of_text, paging
        self._waiting, self._kept = deque(texts), 0  # the group of the prompt that is kept, if there is one
        self._rows: list[_Text | None] = [None] * paging.rows_for(len(texts), config.context)
        self._manager = paging.make_manager(paging.blocks, paging.block_size)
        self._width = -(-config.context // paging.block_size)
        self._blocks = empty_blocks(config, paging.blocks, paging.block_size)
        self._chunk, self._steps = chunk, min(paging.steps, sampling.max_tokens)
        self._prefill = _prefill(graph, paging.attention)
        self._decode = _decode(graph, paging.attention, paging.choose, sampling, end_of_text, self._steps)

    def run(self) -> None:
        """Samples until all texts have ended."""
        while self._waiting or self._running():
            self._admit()
            self._take_places()
            self._sample()

    def _running(self) -> list[_Text]:
        """Those that run, oldest first. No text that waits is older."""
        return sorted((text for text in self._rows if text), key=lambda text: text.number)

    def _admit(self) -> None:
        """Gives free rows to the texts that wait, in their order, while there are blocks for them and for those that
        run."""
        while self._waiting and None in self._rows:
            text, running = self._waiting[0], self._running()
            if running and self._manager.free_blocks() < self._needed(text) + len(running):
                return
            self._waiting.popleft()
            self._begin(text)
            self._rows[self._rows.index(None)] = text
            if not self._waiting or self._waiting[0].group != self._kept:
                self._forget_prompt()

    def _needed(self, text: _Text) -> int:
        """At most so many blocks are needed for the text and the tokens of the next call."""
        size, before = self._paging.block_size, len(text.prompt) - 1
        shared = before // size if self._kept == text.group else 0
        return -(-(before + len(text.tokens) + self._steps) // size) + 1 - shared

    def _begin(self, text: _Text) -> None:
        """Computes all but the last token of a text. The prompt is that of the text before, or is kept for those that
        follow."""
        *before, last = text.prompt
        if self._kept != text.group:
            self._forget_prompt()
            self._manager.start(KEPT, len(before))
            self._compute(KEPT, before, 0, None)
            self._kept = text.group
        self._manager.fork(KEPT, text.name)
        for _ in text.tokens:  # those of a text that was put back
            self._take_place(text)
        self._compute(text.name, [last, *text.tokens][:-1], len(before), text.copy)
        text.places, text.copy = 0, None

    def _compute(self, name: str, ids: list[int], position: int, copy: tuple[int, int] | None) -> None:
        """Runs tokens from a position on, in chunks of one length."""
        for start in range(0, len(ids), self._chunk):
            padded_1T = np.zeros((1, self._chunk), np.int32)
            padded_1T[0, : len(ids) - start] = ids[start : start + self._chunk]
            places = self._tables([name]), np.array([position + start], np.int32)
            self._blocks = self._prefill(self._parameters, self._blocks, self._copies([copy]), *places, padded_1T)
            copy = None

    def _take_places(self) -> None:
        """Takes the blocks that the next call may need, for the oldest text first."""
        for text in self._running():
            while text in self._rows and text.places < min(self._steps, text.most - len(text.tokens)):
                try:
                    self._take_place(text)
                except MemoryError:
                    self._make_room()

    def _take_place(self, text: _Text) -> None:
        block, _, source = self._manager.append(text.name)
        text.places += 1
        if source >= 0:
            text.copy = source, block

    def _make_room(self) -> None:
        """Frees the blocks of a prompt without texts that run, or puts back the newest text."""
        running = self._running()
        if self._kept and self._kept not in {text.group for text in running}:
            self._forget_prompt()
            return
        newest = running[-1]
        if len(running) == 1:
            raise MemoryError(f"{self._paging.blocks} blocks of {self._paging.block_size} are too few for one text")
        self._end_of(newest)
        self._waiting.appendleft(newest)

    def _end_of(self, text: _Text) -> None:
        self._manager.free(text.name)
        self._rows[self._rows.index(text)] = None
        text.places, text.copy = 0, None

    def _forget_prompt(self) -> None:
        if self._kept:
            self._manager.free(KEPT)
            self._kept = 0

    def _sample(self) -> None:
        """Samples a token for each place that was taken."""
        texts = [*self._rows]
        copies = self._copies([text.copy if text else None for text in texts])
        tables_BM = self._tables([text.name if text else None for text in texts])
        numbers_5B = np.array([text.numbers if text else (0,) * 5 for text in texts], np.int32).T
        tokens_BT, self._blocks = self._decode(self._parameters, self._blocks, copies, tables_BM, *numbers_5B)
        for text, tokens in zip(texts, np.asarray(tokens_BT).tolist(), strict=True):
            if text is None:
                continue
            new = tokens[: text.places]
            ended = self._end in new
            text.tokens += new[: new.index(self._end)] if ended else new
            text.places, text.copy = 0, None
            if ended or len(text.tokens) == text.most:
                self._end_of(text)

    def _tables(self, names: list[str | None]) -> np.ndarray:
        """The blocks of each name, then the number of blocks, where there is none."""
        tables_BM = np.full((len(names), self._width), self._paging.blocks, np.int32)
        for row_M, name in zip(tables_BM, names, strict=True):
            if name is not None:
                table = self._manager.table(name)
                row_M[: len(table)] = table
        return tables_BM

    def _copies(self, copies: list[tuple[int, int] | None]) -> np.ndarray:
        """The sources and the targets of the copies of each row."""
        return np.array([copy or (0, self._paging.blocks) for copy in copies], np.int32).T


@functools.lru_cache(maxsize=8)
def _prefill(graph, attention: PagedAttend):
    """A jitted function that runs tokens of one text, padded at the end, and returns the extended blocks."""

    @functools.partial(jax.jit, donate_argnames="blocks")
    def prefill(parameters, blocks, copies, tables_1M, position_1, ids_1T):
        cache = PagedCache(blocks.copied(*copies), tables_1M, attention)
        _, cache = nnx.merge(graph, parameters).step(ids_1T, position_1, jnp.int32(0), cache)
        return cache.blocks

    return prefill


@functools.lru_cache(maxsize=8)
def _decode(graph, attention: PagedAttend, choose: ChooseToken, sampling: Sampling, end_of_text: int, steps: int):
    """A jitted function that samples up to `steps` tokens of each row, until each has ended or has its count.

    What a row gets after its end or its count means nothing.
    """

    @functools.partial(jax.jit, donate_argnames="blocks")
    def decode(parameters, blocks, copies, tables_BM, last_B, position_B, number_B, index_B, count_B):
        model = nnx.merge(graph, parameters)
        keys_B = jax.vmap(functools.partial(sample_key, sampling.seed))(number_B)

        def more(carry):
            step, _, _, done_B, _ = carry
            return (step < steps) & ~(done_B | (step >= count_B)).all()

        def advance(carry):
            step, token_B, tokens_BT, done_B, blocks = carry
            cache = PagedCache(blocks, tables_BM, attention)
            logits_BV, cache = model.step(token_B[:, None], position_B + step, jnp.int32(0), cache)
            step_keys_B = jax.vmap(jax.random.fold_in)(keys_B, index_B + step)
            token_B = jax.vmap(lambda logits_V, key: choose(logits_V, key, sampling))(logits_BV, step_keys_B).astype(
                jnp.int32
            )
            tokens_BT = jax.lax.dynamic_update_slice_in_dim(tokens_BT, token_B[:, None], step, axis=1)
            return step + 1, token_B, tokens_BT, done_B | (token_B == end_of_text), cache.blocks

        tokens_BT = jnp.zeros((len(last_B), steps), jnp.int32)
        start = jnp.int32(0), last_B, tokens_BT, jnp.zeros(len(last_B), bool), blocks.copied(*copies)
        _, _, tokens_BT, _, blocks = jax.lax.while_loop(more, advance, start)
        return tokens_BT, blocks

    return decode
