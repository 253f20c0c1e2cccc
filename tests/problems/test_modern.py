"""The references of problems 37 to 40, a modern model, agree with independent code."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.model.gpt import GPT
from harness.model.rope import rotate
from harness.model_config import ModelConfig
from tests.conftest import ROOT

X = np.random.default_rng(0).standard_normal((5, 3, 8)).astype("float32")
POSITIONS = np.array([0, 1, 9, 4, 30], np.int32)


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def close(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def test_rope_equals_that_of_the_harness():
    from p37_rope import rope

    close(rope(X, POSITIONS, 500.0), rotate(jnp.asarray(X)[None], jnp.asarray(POSITIONS), 500.0)[0])


def test_rope_keeps_its_precision_up_to_the_largest_position():
    """In float64, at the positions that the page promises. Angles are off by at most 0.01 radians."""
    from p37_rope import rope

    far = np.array([0, 99_999, 70_001, 2_048, 100_000], np.int32)
    angles = (far[:, None] * 10_000.0 ** (-np.arange(0, 8, 2) / 8))[:, None]
    turned = (X[..., :4] + 1j * X[..., 4:]) * np.exp(1j * angles)
    found = np.asarray(rope(X, far))
    assert np.abs(found[..., :4] + 1j * found[..., 4:] - turned).max() < 0.02


def test_adjacent_pairs_are_multiplied_as_complex_numbers():
    """As in Meta's code for Llama, in float64."""
    from p37_rope import rope

    angles = POSITIONS[:, None] / 500.0 ** (np.arange(0, 8, 2) / 8)
    turned = X.astype(np.float64).view(np.complex128) * np.exp(1j * angles)[:, None]
    close(rope(X, POSITIONS, 500.0, "adjacent"), turned.view(np.float64))


def test_the_two_pairings_differ_by_a_permutation():
    from p37_rope import rope

    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])  # adjacent pairs as halves
    close(rope(X[..., order], POSITIONS), rope(X, POSITIONS, pairing="adjacent")[..., order])
    assert jax.eval_shape(rope, jnp.asarray(X, jnp.bfloat16), POSITIONS).dtype == jnp.bfloat16


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_rms_norm_equals_that_of_flax(dtype):
    from p38_rms_norm_swiglu import RMSNorm

    norm, oracle = RMSNorm(8, 0.1, nnx.Rngs(0)), nnx.RMSNorm(8, epsilon=0.1, dtype=dtype, rngs=nnx.Rngs(0))
    norm.scale[...] = oracle.scale[...] = jnp.arange(8.0)
    x = jnp.asarray(X[:, 0], dtype)
    assert norm(x).dtype == oracle(x).dtype == dtype
    close(norm(x).astype(jnp.float32), oracle(x).astype(jnp.float32))


def test_swiglu_in_numpy():
    from p38_rms_norm_swiglu import SwiGLU

    mlp = SwiGLU(8, 10, nnx.Rngs(0))
    gate, up, down = (
        np.asarray(layer.kernel[...], np.float64) for layer in (mlp.gate_proj, mlp.up_proj, mlp.down_proj)
    )
    x = X[:, 0].astype(np.float64)
    close(mlp(X[:, 0]), ((x @ gate) / (1 + np.exp(-x @ gate)) * (x @ up)) @ down)


def test_grouped_attention_equals_that_of_jax():
    """`jax.nn.dot_product_attention` makes the groups itself."""
    from p37_rope import rope
    from p39_grouped_query_attention import GQA

    attn = GQA(24, 6, 2, 50.0, nnx.Rngs(0))
    x = np.random.default_rng(1).standard_normal((5, 24)).astype("float32")
    q, k, v = (
        np.asarray(layer(x)).reshape(5, heads, 4)
        for layer, heads in ((attn.q_proj, 6), (attn.k_proj, 2), (attn.v_proj, 2))
    )
    q, k = (rope(a, np.arange(5), 50.0) for a in (q, k))
    close(attn(x), attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(5, 24)))


def test_modern_gpt_equals_that_of_the_harness():
    """With full layers only, it is the harness's GPT with rope, RMSNorm, SwiGLU and grouped heads."""
    from p40_modern_gpt import ModernGPT

    config = ModelConfig(
        vocab_size=9, vocab_multiple=1, context=8, d_model=24, num_heads=6, num_kv_heads=2, d_ff=10, num_layers=2,
        norm_kind="rmsnorm", norm_epsilon=0.05, activation="swiglu", bias=False, positions="rope", rope_base=100.0,
    )  # fmt: skip
    model = ModernGPT(9, 24, 6, 2, 10, 2, 3, 1, 100.0, 0.05, nnx.Rngs(0))
    oracle = GPT(config, nnx.Rngs(1))
    oracle.embed[...] = model.embed.embedding[...]

    def stack(get):
        return jnp.stack([get(block) for block in model.blocks])

    theirs = oracle.blocks
    theirs.attn.q.kernel[...] = stack(lambda block: block.attn.q_proj.kernel[...].reshape(24, 6, 4))
    theirs.attn.kv.kernel[...] = stack(
        lambda block: jnp.stack(
            [layer.kernel[...].reshape(24, 2, 4) for layer in (block.attn.k_proj, block.attn.v_proj)], 1
        )
    )
    theirs.attn.out.kernel[...] = stack(lambda block: block.attn.out_proj.kernel[...].reshape(6, 4, 24))
    theirs.gate.kernel[...] = stack(lambda block: block.ff.gate_proj.kernel[...])
    theirs.ff1.kernel[...] = stack(lambda block: block.ff.up_proj.kernel[...])
    theirs.ff2.kernel[...] = stack(lambda block: block.ff.down_proj.kernel[...])
    ids = jnp.array([3, 1, 4, 1, 5, 0, 2, 6])
    np.testing.assert_allclose(model(ids), oracle(ids), rtol=1e-4, atol=1e-4)
