"""Continuous batching gives the tokens of a batch that runs to the end, with a cache of any size."""

import functools
import itertools
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.continuous_batching import KEPT, Paging, _decode, _Engine, generate_paged
from harness.model.gpt import GPT
from harness.model.paged_cache import BlockManager, empty_blocks, paged_attention
from harness.model.sampling import Sampling, generate_batch, sample_key
from tests.harness.model.test_gpt import VARIANTS, filled

SAMPLED = Sampling(temperature=1.0, top_p=1.0, seed=3, max_tokens=8)
# The size of a block, the number of blocks, and the rows. Of the context of 13, the fewest blocks are 4 + 1, 13 + 1 and
# 1 + 1.
CACHES = [(4, 40, 6), (4, 5, 3), (1, 14, 4), (16, 2, 0), (3, 9, 2)]
model_of = functools.cache(lambda name: filled(VARIANTS[name]))


def whole(model: GPT, prompts: list[list[int]], sampling: Sampling, end: int) -> list[list[int]]:
    """The tokens of `generate_batch`, as samples 7, 8, ..."""
    ids_BT = np.zeros((len(prompts), 6), np.int32)
    for row, prompt in zip(ids_BT, prompts, strict=True):
        row[: len(prompt)] = prompt
    keys_B = jax.vmap(functools.partial(sample_key, sampling.seed))(jnp.arange(7, 7 + len(prompts)))
    return generate_batch(model, ids_BT, sampling, end, keys_B, np.array([len(prompt) for prompt in prompts]))


def prompts_of(lengths: list[int], group_size: int) -> list[list[int]]:
    rng = np.random.default_rng(sum(lengths))
    return [prompt for length in lengths for prompt in [rng.integers(0, 97, length).tolist()] * group_size]


@pytest.mark.parametrize(
    "name",
    [
        "pre, learned, tied",
        "modern",
        "layers of two kinds",
        pytest.param("rope", marks=pytest.mark.thorough),
        pytest.param("window, wide heads, norms of queries and keys", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.0, marks=pytest.mark.thorough)])
def test_each_kind_of_attention_gives_the_same_tokens(name: str, temperature: float) -> None:
    model, prompts = model_of(name), prompts_of([6, 2, 1], 3)
    sampling = Sampling(temperature=temperature, top_p=1.0, seed=3, max_tokens=8)
    end = whole(model, prompts, sampling, -1)[0][3]
    expected = whole(model, prompts, sampling, end)
    assert len({len(tokens) for tokens in expected}) > 1
    assert generate_paged(model, prompts, sampling, end, itertools.count(7), 6, Paging(12, 4, 4, steps=3)) == expected


@functools.cache
def ends() -> tuple[int, ...]:
    """No token, and two that are common."""
    texts = whole(model_of("rope"), prompts_of([1, 2, 5, 6], 4), SAMPLED, -1)
    (first, _), (second, _) = Counter(token for tokens in texts for token in tokens).most_common(2)
    return -1, first, second


# Numbers of shapes and of tokens that end a text are small, because each one is a compilation.
@settings(max_examples=25)
@given(
    st.sampled_from(CACHES),
    st.lists(st.sampled_from([1, 2, 5, 6]), min_size=3, max_size=5),
    st.integers(3, 4),
    st.integers(0, 2),
)
def test_any_cache_gives_the_same_tokens(
    cache: tuple[int, int, int], lengths: list[int], group_size: int, chosen: int
) -> None:
    model, prompts = model_of("rope"), prompts_of(lengths, group_size)
    end = ends()[chosen]
    filled = prompts + prompts[-1:] * (20 - len(prompts))
    expected = [
        [*itertools.takewhile(lambda token: token != end, tokens)] for tokens in whole(model, filled, SAMPLED, -1)
    ]
    size, number, rows = cache
    tokens = generate_paged(model, prompts, SAMPLED, end, itertools.count(7), 6, Paging(number, size, rows, steps=3))
    assert tokens == expected[: len(prompts)]


class Recorded(BlockManager):
    """A manager that counts prompts and the most blocks in use, and records which texts run whenever one begins."""

    def __init__(self, num_blocks: int, block_size: int):
        super().__init__(num_blocks, block_size)
        self.number, self.most, self.prompts = num_blocks, 0, 0
        self.forks: list[tuple[int, set[int]]] = []
        self.made.append(self)

    made: ClassVar[list["Recorded"]] = []

    def start(self, name: str, num_tokens: int) -> None:
        super().start(name, num_tokens)
        self.prompts += 1

    def fork(self, name: str, new_name: str) -> None:
        super().fork(name, new_name)
        self.forks.append((int(new_name), {int(each) for each in self._tables if each != KEPT}))

    def append(self, name: str) -> tuple[int, int, int]:
        place = super().append(name)
        self.most = max(self.most, self.number - self.free_blocks())
        return place


def recorded(*arguments: Any, width: int = 6, **sizes: Any) -> Recorded:
    generate_paged(*arguments, itertools.count(7), width, Paging(**sizes, make_manager=Recorded))
    manager = Recorded.made.pop()
    assert manager.free_blocks() == manager.number  # all are free in the end
    return manager


def test_a_prompt_runs_once_and_its_blocks_are_shared() -> None:
    model, prompts = model_of("rope"), prompts_of([6, 5], 6)
    manager = recorded(model, prompts, SAMPLED, -1, blocks=60, block_size=2, rows=12, steps=3)
    assert manager.prompts == 2
    # The last token of a text is sampled, and does not run. So a prompt of 6 tokens leads to 13 in 7 blocks, of which
    # all texts share the 2 that its first 5 tokens fill; one of 5 tokens leads to 12 in 6 blocks, of which they share 2
    # as well.
    assert manager.most == 2 + 6 * 5 + 2 + 6 * 4


def test_texts_that_are_put_back_are_computed_again() -> None:
    model, prompts = model_of("rope"), prompts_of([2, 2, 2], 3)
    # Chunks of 2 tokens, so that those of a text that is put back take several.
    manager = recorded(model, prompts, SAMPLED, -1, width=2, blocks=5, block_size=4, rows=4, steps=2)
    starts = [number for number, _ in manager.forks]
    assert starts.count(7) == 1, "the oldest text is never put back"
    assert len(starts) > len(set(starts)) == 9
    assert manager.most == 5
    for turn, (number, running) in enumerate(manager.forks):
        assert {other for other in starts[turn:] if other < number} <= running, (
            "no text overtakes an older one that waits"
        )
    tokens = generate_paged(model, prompts, SAMPLED, -1, itertools.count(7), 2, Paging(5, 4, 4, steps=2))
    assert tokens == whole(model, prompts, SAMPLED, -1)


def test_rows_are_filled_again() -> None:
    model, prompts = model_of("rope"), prompts_of([4] * 6, 1)
    unbounded = whole(model, prompts, SAMPLED, -1)
    end = unbounded[0][0]  # the first text ends at once
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        sample = _Engine._sample
        patch.setattr(
            _Engine, "_sample", lambda self: calls.append([t.number for t in self._running()]) or sample(self)
        )
        generate_paged(model, prompts, SAMPLED, end, itertools.count(7), 6, Paging(20, 4, 2, steps=3))
    assert calls[:2] == [[7, 8], [8, 9]]
    assert sorted({number for call in calls for number in call}) == [*range(7, 13)]


def test_what_cannot_fit_is_an_error() -> None:
    model, prompts = model_of("rope"), prompts_of([6], 2)
    with pytest.raises(MemoryError, match="3 blocks of 4 are too few for one text"):
        generate_paged(model, prompts, SAMPLED, -1, itertools.count(0), 6, Paging(3, 4))


def test_a_text_ends_where_the_context_is_full() -> None:
    model, prompts, sampling = model_of("rope"), [[1, 2, 3, 4, 5, 6], [7, 8]], replace(SAMPLED, max_tokens=10)
    expected = whole(model, prompts, sampling, -1)
    assert [len(tokens) for tokens in expected] == [8, 10]  # a context of 13 has a token after its last position
    assert generate_paged(model, prompts, sampling, -1, itertools.count(7), 6, Paging(20)) == expected
    shorter = whole(model, prompts, replace(SAMPLED, max_tokens=8), -1)
    assert [tokens[:8] for tokens in expected] == shorter


def test_other_prompts_need_no_other_program(caplog: pytest.LogCaptureFixture) -> None:
    model = model_of("rope")
    compiled = []
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):  # commands of other tests silence it
        for lengths in ([6, 5], [1, 6]):
            generate_paged(model, prompts_of(lengths, 3), SAMPLED, -1, itertools.count(0), 6, Paging(30, 4, 3))
            compiled.append("Compiling jit(" in caplog.text)
            caplog.clear()
    assert compiled[1] is False


def test_a_call_copies_neither_the_cache_nor_a_sequence() -> None:
    config = VARIANTS["rope"]
    model = model_of("rope")
    graph, parameters = nnx.split(model)
    blocks = empty_blocks(config, 400, 16)
    rows, width = 2, 128
    arrays = [np.zeros(rows, np.int32) for _ in range(5)]
    decode = _decode(graph, paged_attention, Paging(1).choose, SAMPLED, -1, 8)
    lowered = decode.lower(
        parameters, blocks, np.zeros((2, rows), np.int32), np.zeros((rows, width), np.int32), *arrays
    )
    measured = lowered.compile().memory_analysis()
    size = sum(x.nbytes for x in blocks)
    assert measured.alias_size_in_bytes >= size
    sequence = width * 16 * config.d_model * 4  # the keys of one layer of one row
    assert measured.temp_size_in_bytes < size / 4
    assert measured.temp_size_in_bytes < rows * sequence
