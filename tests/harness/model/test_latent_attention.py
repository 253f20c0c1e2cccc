"""Latent attention, beside what test_gpt.py tests of every mixer: its cache, adapters, and kernels of GPUs."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.model import attention
from harness.model.general import make_gpt
from harness.model.lora import add_adapters
from tests.harness.model.test_gpt import IDS, VARIANTS, filled

pytestmark = pytest.mark.usefixtures("strict_dtypes")

CONFIG = VARIANTS["latent attention"]


def test_the_cache_holds_a_latent_vector_and_one_rotated_key_for_each_position() -> None:
    shapes = [leaf.shape for leaf in jax.tree.leaves(make_gpt(CONFIG, nnx.Rngs(0)).empty_cache(3))]
    assert shapes == [(CONFIG.num_layers, 3, CONFIG.context, CONFIG.d_latent + CONFIG.d_rope)]


def test_a_step_absorbs_the_kernel_with_the_change_of_an_adapter() -> None:
    model = add_adapters(filled(CONFIG), 2, frozenset({"attn"}), nnx.Rngs(0))
    before = model(IDS)
    state = nnx.state(model, nnx.LoRAParam)
    nnx.update(model, jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.3), state))
    after = model(IDS)
    assert abs(after - before).max() > 0.1
    logits, _ = model.step(IDS, jnp.int32(0), jnp.int32(12), model.empty_cache(2))
    np.testing.assert_allclose(logits, after[:, 12], rtol=1e-4, atol=1e-4)


def test_keys_and_values_start_as_large_as_the_latent_vectors() -> None:
    layer = make_gpt(replace(CONFIG, d_model=64, num_heads=8, d_latent=40, num_layers=1), nnx.Rngs(0)).blocks.attn
    single = nnx.merge(nnx.graphdef(layer), jax.tree.map(lambda leaf: leaf[0], nnx.state(layer)))
    latent = jax.random.normal(jax.random.key(0), (2, 50, 40))
    assert 0.9 < single.kv(latent).std() < 1.1


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("segments", [None, [[1] * 3 + [2] * 5 + [0] * 2, [1] * 10]])
def test_a_kernel_with_values_as_wide_as_keys_gives_the_same(
    window: int, segments: list[list[int]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k = jax.random.normal(jax.random.key(0), (2, 2, 10, 3, 8))
    v = jax.random.normal(jax.random.key(1), (2, 10, 3, 5))
    segments_BT = None if segments is None else jnp.array(segments)
    tiles = attention.causal_attention(q, k, v, window, segments_BT)
    xla = functools.partial(jax.nn.dot_product_attention, implementation="xla")
    monkeypatch.setattr(attention, "cudnn_fits", lambda dtype, width: True)
    monkeypatch.setattr(jax.nn, "dot_product_attention", lambda *a, implementation, **k: xla(*a, **k))
    kernel = attention.causal_attention(q, k, v, window, segments_BT)
    np.testing.assert_allclose(kernel, tiles, rtol=1e-5, atol=1e-5)
