"""The references of problems 37 to 40, 72 and 73, a modern model, agree with independent code."""

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

    attn = GQA(24, 6, 2, 50.0, rngs=nnx.Rngs(0))
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


def test_a_pair_that_never_turned_is_slowed_and_a_fast_one_is_not():
    """By the definition of a turn, and at a position where float32 angles are still exact."""
    from p72_long_context import rotate, yarn

    frequencies, scale = yarn(16, 10_000.0, 8.0, 4096, truncate=False)
    plain = 10_000.0 ** (-np.arange(8) / 8)
    turns = 4096 * plain / (2 * np.pi)
    slowed = plain / np.asarray(frequencies)
    assert np.array_equal(np.isclose(slowed, 1), turns >= 32)
    assert np.array_equal(np.isclose(slowed, 8), turns <= 1)
    # Scores are larger by the square of the scale, and depend on the distance only.
    x = jnp.ones((1, 1, 16))
    scores = [jnp.vdot(rotate(x, jnp.array([t]), frequencies, s), rotate(x, jnp.array([t - 3]), frequencies, s))
              for t, s in ((3, 1.0), (3, scale), (40, scale))]  # fmt: skip
    close(scores[1] / scores[0], (0.1 * np.log(8) + 1) ** 2)
    close(scores[1], scores[2])


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("K", "base", "factor", "original", "truncate"),
    [(128, 1e6, 4.0, 32_768, True), (64, 150_000.0, 32.0, 4096, False), (64, 1e4, 40.0, 4096, True),
     (16, 5e5, 2.5, 100, True), (16, 5e5, 2.5, 100, False), (2, 1e4, 8.0, 2048, True), (12, 1e4, 1.0, 1000, True)],
)  # fmt: skip
def test_yarn_is_that_of_transformers(K, base, factor, original, truncate):
    """The frequencies, the scale, and rotated queries at positions beyond the original context."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from p72_long_context import rotate, yarn
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    rope = {
        "rope_type": "yarn", "rope_theta": base, "factor": factor, "truncate": truncate,
        "original_max_position_embeddings": original,
    }  # fmt: skip
    config = LlamaConfig(
        head_dim=K, hidden_size=2 * K, num_attention_heads=2, max_position_embeddings=int(original * factor),
        rope_parameters=rope,
    )  # fmt: skip
    theirs = LlamaRotaryEmbedding(config)
    frequencies, scale = yarn(K, base, factor, original, truncate)
    np.testing.assert_allclose(frequencies, theirs.inv_freq.numpy(), rtol=1e-5)
    assert scale == pytest.approx(theirs.attention_scaling)
    positions, x = np.array([0, 3, 2 * original, 70]), np.random.default_rng(0).standard_normal((4, 2, K))
    x = x.astype("float32")
    cos, sin = theirs(torch.zeros(1), torch.tensor(positions)[None])
    expected = apply_rotary_pos_emb(*2 * (torch.tensor(x).transpose(0, 1)[None],), cos, sin)[0]
    turned = rotate(jnp.asarray(x), jnp.asarray(positions), frequencies, scale)
    np.testing.assert_allclose(turned, expected[0].transpose(0, 1).numpy(), atol=0.02)


def test_experts_of_today_equal_a_loop_over_their_choices():
    """In float64, with a bias by which half of the experts are chosen by every token, and nobody is dropped."""
    from p73_experts_today import moe

    rng, (T, D, E, k, F, M) = np.random.default_rng(0), (19, 4, 6, 3, 5, 7)
    shapes = (T, D), (D, E), (E, D, 2 * F), (E, F, D), (D, 2 * M), (M, D)
    x, w, w_in, w_out, shared_in, shared_out = (rng.standard_normal(shape) for shape in shapes)
    bias = np.array([2.0, 0.1, 3.0, -0.2, 4.0, 0.0])
    scores = 1 / (1 + np.exp(-x @ w))

    def expert(row, both, down):
        gate, up = np.split(row @ both, 2)
        return (gate / (1 + np.exp(-gate)) * up) @ down

    expected = np.array([expert(row, shared_in, shared_out) for row in x])
    for t, row in enumerate(scores):
        for e in (0, 2, 4):
            expected[t] += row[e] / row[[0, 2, 4]].sum() * expert(x[t], w_in[e], w_out[e])
    matrices = map(jnp.float32, (w_in, w_out, shared_in, shared_out))
    out, counts = moe(jnp.float32(x), jnp.float32(w), jnp.float32(bias), k, *matrices)
    assert counts.tolist() == [T, 0, T, 0, T, 0]
    close(out, expected)


@pytest.mark.oracle
def test_experts_of_today_are_those_of_transformers():
    """A layer of DeepSeek-V3 with random numbers: one group, and a factor that the last matrices take over."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from p73_experts_today import moe, route
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE

    config = DeepseekV3Config(
        hidden_size=12, moe_intermediate_size=7, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
        n_group=1, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True,
    )  # fmt: skip
    config._experts_implementation = "eager"
    torch.manual_seed(0)
    theirs = DeepseekV3MoE(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    theirs.gate.e_score_correction_bias.copy_(torch.randn(8) * 0.2)
    x = torch.randn(1, 30, 12)
    with torch.no_grad():
        expected, (_, their_weights, their_experts) = theirs(x)[0], theirs.gate(x)
    state = {name: jnp.asarray(value.numpy()) for name, value in theirs.state_dict().items()}
    rows, w, bias = jnp.asarray(x[0].numpy()), state["gate.weight"].T, state["gate.e_score_correction_bias"]
    shared = [state[f"shared_experts.{name}_proj.weight"].T for name in ("gate", "up", "down")]
    w_in, w_out = (jnp.swapaxes(state[f"experts.{name}_proj"], 1, 2) for name in ("gate_up", "down"))
    out, counts = moe(rows, w, bias, 3, w_in, 2.5 * w_out, jnp.hstack(shared[:2]), shared[2])
    close(out, expected.numpy())
    assert counts.tolist() == np.bincount(their_experts.numpy().ravel(), minlength=8).tolist()
    experts, weights = route(rows, w, bias, 3)
    order, their_order = np.argsort(experts, axis=1), np.argsort(their_experts.numpy(), axis=1)
    close(np.take_along_axis(weights, order, 1), np.take_along_axis(their_weights.numpy(), their_order, 1) / 2.5)
