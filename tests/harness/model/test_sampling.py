"""Sampling: logits, candidate tokens, stopping, and text."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harness.data.tokenizer import get_tokenizer
from harness.errors import UsageError
from harness.model.sampling import (
    CachedDecoder,
    Sampling,
    WindowDecoder,
    choose_token,
    generate,
    generate_batch,
    sample_key,
    stream_text,
)
from tests.harness.model.test_gpt import VARIANTS, filled

LOGITS = jnp.log(jnp.array([0.1, 0.4, 0.05, 0.25, 0.2]))


def drawn(sampling: Sampling, number: int = 400) -> np.ndarray:
    return np.asarray(
        jax.vmap(lambda key: choose_token(LOGITS, key, sampling))(jax.random.split(jax.random.key(0), number))
    )


@pytest.mark.parametrize(
    ("sampling", "allowed"),
    [
        (Sampling(temperature=1.0, top_p=1.0), {0, 1, 2, 3, 4}),
        (Sampling(temperature=1.0, top_k=2, top_p=1.0), {1, 3}),
        (Sampling(temperature=1.0, top_k=99, top_p=1.0), {0, 1, 2, 3, 4}),
        (Sampling(temperature=1.0, top_p=0.6), {1, 3}),  # 0.4 + 0.25 reach p
        (Sampling(temperature=1.0, top_p=0.399), {1}),  # the one that reaches p is in, the next is not
        (Sampling(temperature=1.0, top_p=1e-6), {1}),
        (Sampling(temperature=1.0, top_k=3, top_p=0.5), {1, 3}),  # the three are renormalized to 0.47, 0.29, 0.24
        (Sampling(temperature=1.0, top_p=1.0, min_p=0.6), {1, 3}),  # 0.25 is 0.62 of 0.4, the next less
        (Sampling(temperature=1.0, top_k=3, top_p=1.0, min_p=0.6), {1, 3}),
        (Sampling(temperature=1.0, top_p=1.0, min_p=1.0), {1}),
        (Sampling(temperature=1.0, top_p=1.0, min_p=1e-9), {0, 1, 2, 3, 4}),
        (Sampling(temperature=0.0), {1}),
        (Sampling(temperature=0.01, top_p=1.0), {1}),
    ],
)
def test_exactly_the_allowed_tokens_are_drawn(sampling: Sampling, allowed: set[int]) -> None:
    assert set(drawn(sampling).tolist()) == allowed


def test_temperature_divides_logits() -> None:
    share = np.bincount(drawn(Sampling(temperature=0.5, top_p=1.0), 4000), minlength=5) / 4000
    squared = np.exp(2 * np.asarray(LOGITS))
    np.testing.assert_allclose(share, squared / squared.sum(), atol=0.03)  # 4 standard deviations of 4,000 draws


@pytest.mark.parametrize("name", ["pre, learned, tied", "rope", "latent attention", "state space", "no blocks"])
def test_the_cache_gives_the_same_tokens(name: str) -> None:
    model = filled(VARIANTS[name])
    sampling = Sampling(temperature=1.0, top_p=0.9, seed=3, max_tokens=8)
    cached = generate(CachedDecoder(model, sampling), [3, 1, 4, 1], sampling, end_of_text=-1)
    window = generate(WindowDecoder(model, sampling, 13), [3, 1, 4, 1], sampling, end_of_text=-1)
    assert list(cached) == list(window)


@pytest.mark.parametrize("length", [20, *(pytest.param(length, marks=pytest.mark.thorough) for length in (4, 13))])
def test_a_batch_is_sampled_as_one_by_one(length: int) -> None:
    model = filled(VARIANTS["rope"])
    sampling = Sampling(temperature=1.0, top_p=0.9, seed=3, max_tokens=25)  # past the context, which is 13
    ids_BT = np.random.default_rng(0).integers(0, 97, (3, length))
    keys_B = jnp.stack([sample_key(3, row) for row in range(3)])

    def alone(end: int) -> list[list[int]]:
        rows = enumerate(ids_BT.tolist())
        return [list(generate(CachedDecoder(model, sampling), ids, sampling, end, row)) for row, ids in rows]

    end = alone(-1)[1][10]
    assert generate_batch(model, ids_BT, sampling, -1, keys_B) == alone(-1)
    assert generate_batch(model, ids_BT, sampling, end, keys_B) == alone(end)
    assert len(alone(end)[1]) <= 10


@pytest.mark.parametrize(
    "name",
    [
        "rope",
        "state space",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("pre, learned, tied", "latent attention")),
    ],
)
def test_prompts_of_different_length_are_sampled_in_one_batch_as_alone(name: str) -> None:
    model = filled(VARIANTS[name])
    sampling = Sampling(temperature=1.0, top_p=1.0, seed=3, max_tokens=8)
    prompts = [np.random.default_rng(length).integers(0, 97, length).tolist() for length in (6, 2, 4)]
    keys_B = jnp.stack([sample_key(3, row) for row in range(3)])

    def alone(end: int) -> list[list[int]]:
        rows = enumerate(prompts)
        return [list(generate(CachedDecoder(model, sampling), ids, sampling, end, row)) for row, ids in rows]

    end = alone(-1)[0][3]
    padded_BT = np.array([prompt + [96] * (6 - len(prompt)) for prompt in prompts])  # padding may be any token
    lengths_B = np.array([6, 2, 4])
    for each in (-1, end):
        assert generate_batch(model, padded_BT, sampling, each, keys_B, lengths_B) == alone(each)
    longer = generate_batch(model, padded_BT, replace(sampling, max_tokens=10), -1, keys_B, lengths_B)
    assert [tokens[:8] for tokens in longer] == alone(-1)
    assert [len(tokens) for tokens in longer] == [8, 10, 10]  # the first row has filled the context of 13


def test_sampling_tells_how_likely_each_token_was() -> None:
    model = filled(VARIANTS["rope"])
    sampling = Sampling(temperature=1.0, top_p=1.0, seed=3, max_tokens=6)
    ids_BT, keys_B = np.array([[3, 1, 4], [1, 5, 96]]), jnp.stack([sample_key(3, row) for row in range(2)])
    end = generate_batch(model, ids_BT, sampling, -1, keys_B)[0][3]
    log_p: list[np.ndarray] = []
    texts = generate_batch(model, ids_BT, sampling, end, keys_B, np.array([3, 2]), log_p)
    for row, length, text, found in zip(ids_BT.tolist(), (3, 2), texts, log_p, strict=True):
        ids = [*row[:length], *text, end][: length + 6]
        expected = jax.nn.log_softmax(model(jnp.array(ids[:-1])))[jnp.arange(len(ids) - 1), jnp.array(ids[1:])]
        np.testing.assert_allclose(found, expected[length - 1 :], rtol=1e-4, atol=1e-5)


def test_prompts_of_other_lengths_need_no_other_program(caplog: pytest.LogCaptureFixture) -> None:
    model = filled(VARIANTS["rope"])
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=3)
    ids_BT, keys_B = np.ones((2, 6), np.int32), jax.random.split(jax.random.key(0), 2)
    compiled = []
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax"):  # commands of other tests silence it
        for lengths in ((6, 5), (1, 3)):
            generate_batch(model, ids_BT, sampling, -1, keys_B, np.array(lengths))
            compiled.append("Compiling jit(fill)" in caplog.text)
            caplog.clear()
    assert compiled == [True, False]


@pytest.mark.parametrize(
    "length", [1, 13, *(pytest.param(length, marks=pytest.mark.thorough) for length in (12, 14, 30))]
)
def test_a_prompt_of_any_length_is_continued_past_the_context(length: int) -> None:
    model = filled(VARIANTS["rope"])
    sampling = Sampling(temperature=0.0, max_tokens=20)
    tokens = list(generate(CachedDecoder(model, sampling), list(range(length)), sampling, end_of_text=-1))
    assert len(tokens) == 20
    assert all(0 <= token < 97 for token in tokens)
    # The first token depends on the last `context` tokens of the prompt, read at the last real position.
    assert tokens[0] == int(jnp.argmax(model(jnp.arange(length)[-13:])[-1]))


class Fixed:
    """A decoder that returns these tokens."""

    def __init__(self, tokens: list[int]):
        self.tokens = iter(tokens)

    def prefill(self, ids: list[int], key: jax.Array) -> int:
        return next(self.tokens)

    def decode(self, token: int, key: jax.Array) -> int:
        return next(self.tokens)


def test_sampling_stops_at_end_of_text_or_at_max_tokens() -> None:
    assert list(generate(Fixed([5, 6, 9, 7]), [1], Sampling(), end_of_text=9)) == [5, 6]
    assert list(generate(Fixed([9]), [1], Sampling(), end_of_text=9)) == []
    assert list(generate(Fixed([5, 6]), [1], Sampling(max_tokens=2), end_of_text=9)) == [5, 6]


def test_incomplete_characters_are_held_back() -> None:
    pocket = get_tokenizer("pocket-2k")
    ids = pocket.encode_ordinary("é is 🙂.")
    parts = list(stream_text(pocket, iter(ids)))
    assert "".join(parts) == "é is 🙂."
    assert not any("\ufffd" in part for part in parts)
    assert "".join(stream_text(pocket, iter([*ids, 60_000]))) == "é is 🙂.", "an id without text"
    assert "".join(stream_text(pocket, iter(pocket.encode_ordinary("🙂")[:1]))) == "\ufffd", (
        "an incomplete character at the end"
    )


def test_samples_of_one_seed_differ_and_are_reproducible() -> None:
    model = filled(replace(VARIANTS["rope"]))
    sampling = Sampling(temperature=2.0, top_p=1.0, max_tokens=12)
    first, second, repeated = (
        list(generate(CachedDecoder(model, sampling), [1], sampling, -1, number)) for number in (0, 1, 0)
    )
    assert first == repeated != second


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1.0},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"min_p": 1.1},
        {"min_p": -0.1},
        {"max_tokens": 0},
    ],
)
def test_an_option_out_of_range_is_a_usage_error(options: dict) -> None:
    with pytest.raises(UsageError, match="--"):
        Sampling(**options)
