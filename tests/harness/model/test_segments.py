"""Rows with several stories: each story gets what it would get in a row of its own."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.model.attention import MOST_TILES, SMALLEST_TILE, causal_attention
from harness.model.gpt import GPT
from harness.model.segments import Segments, segment_positions
from tests.harness.model.test_gpt import IDS, VARIANTS, filled, logits_of

pytestmark = pytest.mark.usefixtures("strict_dtypes")

ATTENDING = {name: config for name, config in VARIANTS.items() if config.mixer == "attention"}
SEGMENTS = jnp.array([[1] * 5 + [2] * 7 + [0], [1] * 3 + [2] * 2 + [3] * 8], jnp.int32)


def test_positions_start_again_with_each_segment() -> None:
    assert segment_positions(SEGMENTS).tolist() == [
        [*range(5), *range(7), 0],
        [*range(3), *range(2), *range(8)],
    ]


@nnx.jit
def logits_in_segments(model: GPT, segments: jax.Array) -> jax.Array:
    return model.logits(model.hidden(IDS, None, Segments.of(segments)))


@pytest.mark.parametrize("config", ATTENDING.values(), ids=ATTENDING)
def test_a_story_is_not_changed_by_its_neighbors(config: Config) -> None:
    model = filled(config)
    together = logits_in_segments(model, SEGMENTS)
    alone, ids_BT = np.zeros_like(together), np.asarray(IDS)
    for row, ids in enumerate(np.asarray(SEGMENTS)):
        for segment in set(ids.tolist()):
            places = np.flatnonzero(ids == segment)
            story_T = np.zeros(13, np.int32)  # one shape for all
            story_T[: len(places)] = ids_BT[row, places]
            alone[row, places] = np.asarray(logits_of(model, story_T))[: len(places)]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [pytest.param(0, marks=pytest.mark.thorough), 70])
def test_attention_within_segments_over_several_tiles_has_the_gradients_of_the_masked_softmax(window: int) -> None:
    T = 2 * SMALLEST_TILE + 30
    assert T < SMALLEST_TILE * MOST_TILES
    q, k, v = (jax.random.normal(key, (2, T, 2, 4)) for key in jax.random.split(jax.random.key(0), 3))
    begins = np.random.default_rng(0).random((2, T)) < 0.02
    segments = jnp.asarray(np.cumsum(begins, axis=1), jnp.int32)
    places = np.arange(T)
    sees = (segments[:, :, None] == segments[:, None, :]) & (places[:, None] >= places)[None]
    if window:
        sees = sees & (places[:, None] - places < window)[None]

    def expected(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bthk,bshk->bhts", q, k) / 2.0
        return jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(jnp.where(sees[:, None], scores, -jnp.inf)), v)

    def found(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return causal_attention(q, k, v, window, segments)

    weights = jnp.cos(jnp.arange(q.size, dtype=jnp.float32)).reshape(q.shape)

    @functools.partial(jax.jit, static_argnums=0)
    def results(attention: Callable[..., jax.Array], *qkv: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        out, pull = jax.vjp(attention, *qkv)
        return out, pull(weights)

    (out, gradients), (other, other_gradients) = results(found, q, k, v), results(expected, q, k, v)
    np.testing.assert_allclose(out, other, rtol=1e-4, atol=1e-5)
    for one, another in zip(gradients, other_gradients, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-3, atol=1e-5)
