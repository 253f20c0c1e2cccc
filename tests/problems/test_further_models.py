"""The references of problems 66, 67, 70 and 74 agree with independent oracles."""

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def softmax(x: np.ndarray) -> np.ndarray:
    """In float64."""
    odds = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)


def test_the_soft_loss_is_the_divergence_and_its_gradient_that_of_hinton():
    """Row by row in NumPy: T² KL(p‖q), and T (q - p) for each logit (Hinton et al. 2015, equation 2)."""
    from p70_distillation import token_loss

    rng, T = np.random.default_rng(0), 3.0
    student, teacher = rng.standard_normal((2, 5, 7)).astype("float32")
    ids, is_target = rng.integers(0, 7, 5), np.array([False, True, True, False, True])
    p, q, rows = softmax(teacher / T), softmax(student / T), [0, 1, 3]
    soft, gradient = jax.value_and_grad(token_loss)(student, teacher, ids, is_target, T, 1.0)
    np.testing.assert_allclose(soft, T**2 * np.mean([np.sum(p[t] * np.log(p[t] / q[t])) for t in rows]), rtol=1e-5)
    expected = np.zeros((5, 7))
    expected[rows] = T * (q - p)[rows] / 3
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    hard = token_loss(student, teacher, ids, is_target, T, 0.0)
    np.testing.assert_allclose(hard, -np.mean([np.log(softmax(student)[t, ids[t + 1]]) for t in rows]), rtol=1e-5)


def test_the_divergence_of_kept_tokens_is_bounded_by_the_full_one():
    """It is that of the lumped distributions, grows with k, and reaches the full divergence."""
    from p70_distillation import top_k_loss, top_k_targets

    rng, T = np.random.default_rng(1), 2.0
    student, teacher = rng.standard_normal((2, 3, 6)).astype("float32")
    p, q = softmax(teacher / T), softmax(student / T)
    losses = []
    for k in range(1, 7):
        ids, log_p = top_k_targets(teacher, k, T)
        kept = [np.take_along_axis(x, np.asarray(ids), 1) for x in (p, q)]
        lumped = [np.append(x, 1 - x.sum(1, keepdims=True), 1) for x in kept]
        if k == 6:
            lumped = [x[:, :6] for x in lumped]
        losses.append(float(top_k_loss(student, ids, log_p, T)))
        np.testing.assert_allclose(
            losses[-1], T**2 * optax.kl_divergence(np.log(lumped[1]), lumped[0]).mean(), rtol=1e-4
        )
        assert abs(top_k_loss(teacher, ids, log_p, T)) < 1e-5
    assert losses == sorted(losses)
    np.testing.assert_allclose(losses[-1], T**2 * np.sum(p * np.log(p / q)) / 3, rtol=1e-5)


def test_the_sequence_loss_is_the_cross_entropy_of_whole_texts():
    """Over all texts of two tokens, weighted by the teacher, it is the teacher's entropy plus the divergence of
    texts."""
    from p70_distillation import sequence_loss

    rng = np.random.default_rng(2)
    first, second = softmax(rng.standard_normal((2, 3))), softmax(rng.standard_normal((2, 3, 3)))
    law = [first[i][:, None] * second[i] for i in range(2)]  # of the teacher and of the student, (3, 3)
    total = 0.0
    for a, b in itertools.product(range(3), repeat=2):
        logits = np.log(np.stack([first[1], second[1][a], np.ones(3)]))[None].astype("float32")
        total += law[0][a, b] * float(sequence_loss(logits, jnp.array([[0, a, b]]), jnp.array([[False, True, True]])))
    np.testing.assert_allclose(total, -np.sum(law[0] * np.log(law[1])), rtol=1e-5)


def test_the_on_policy_loss_is_the_reverse_divergence_of_whole_texts():
    """Over all texts of two tokens that the student writes, twice the mean over the tokens is KL(student‖teacher)."""
    from p70_distillation import on_policy_loss

    rng = np.random.default_rng(3)
    first, second = softmax(rng.standard_normal((2, 3))), softmax(rng.standard_normal((2, 3, 3)))
    law = [first[i][:, None] * second[i] for i in range(2)]  # of the teacher and of the student, (3, 3)
    total, written = 0.0, jnp.array([[False, True, True]])
    for a, b in itertools.product(range(3), repeat=2):
        teacher, student = (np.log(np.stack([first[i], second[i][a], np.ones(3)]))[None] for i in range(2))
        total += law[1][a, b] * 2 * float(on_policy_loss(student.astype("float32"), teacher.astype("float32"), written))
    np.testing.assert_allclose(total, np.sum(law[1] * np.log(law[1] / law[0])), rtol=1e-5)


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


@pytest.mark.parametrize("T", [1, 2, 13])
def test_the_scan_is_the_recurrence_of_mamba(T: int):
    """`selective_scan_ref` of Mamba's repository, position by position in float64."""
    from p67_state_space import selective_scan

    rng, D, N = np.random.default_rng(T), 3, 4
    u, dt, b, c = (rng.standard_normal((T, size)) for size in (D, D, N, N))
    dt, a, h = softplus(dt), -np.exp(rng.standard_normal((D, N))), rng.standard_normal((D, N))
    y, state = selective_scan(*(jnp.asarray(x, jnp.float32) for x in (u, dt, a, b, c, h)))
    expected = []
    for t in range(T):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * u[t])[:, None] * b[t]
        expected.append(h @ c[t])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state, h, rtol=1e-4, atol=1e-5)


def test_the_layer_around_the_scan_is_that_of_mamba():
    """`y = (scan + D u) * silu(z)`, with B, C and the steps of u, in NumPy."""
    from p67_state_space import SelectiveSSM

    layer, x = SelectiveSSM(4, 3, nnx.Rngs(0)), np.random.default_rng(0).standard_normal((6, 4))
    kernel = {
        name: np.asarray(getattr(layer, name).kernel[...], float)
        for name in ("in_proj", "bc_proj", "dt_proj", "out_proj")
    }
    u, z = np.split(x @ kernel["in_proj"], 2, axis=1)
    b, c = np.split(u @ kernel["bc_proj"], 2, axis=1)
    dt, a, h, rows = softplus(u @ kernel["dt_proj"] - 3), -np.tile([1.0, 2.0, 3.0], (4, 1)), np.zeros((4, 3)), []
    for t in range(6):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * u[t])[:, None] * b[t]
        rows.append((h @ c[t] + u[t]) * z[t] / (1 + np.exp(-z[t])))
    np.testing.assert_allclose(
        layer(jnp.asarray(x, jnp.float32)), np.array(rows) @ kernel["out_proj"], rtol=1e-4, atol=1e-5
    )


def of_a_text(T: int, K: int, M: int) -> list[np.ndarray]:
    """Queries, keys, values, strengths, logarithms of the decays, and a state, as float32."""
    rng = np.random.default_rng(T)
    q, k, v, state = (rng.standard_normal(shape) for shape in ((T, K), (T, K), (T, M), (K, M)))
    arrays = (q, k, v, rng.uniform(0, 1, T), -rng.exponential(1, T), state)
    return [each.astype("float32") for each in arrays]


@pytest.mark.parametrize(("T", "chunk"), [(1, 64), (7, 3), (8, 4), (13, 1), (13, 20)])
def test_the_delta_rule_is_a_step_of_gradient_descent_at_each_position(T: int, chunk: int):
    """On half the squared error of what the decayed state returns under the key, with beta as the learning rate, in
    float64."""
    from p74_gated_delta import delta_rule

    arrays = of_a_text(T, 4, 3)
    q, k, v, beta, log_alpha, state = (each.astype(float) for each in arrays)
    expected = []
    for t in range(T):
        key, query = (x[t] / np.sqrt(x[t] @ x[t] + 1e-6) for x in (k, q))
        state = np.exp(log_alpha[t]) * state
        state = state - beta[t] * np.outer(key, key @ state - v[t])
        expected.append(query @ state / 2)
    out, last = delta_rule(*arrays, chunk)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, state, rtol=1e-4, atol=1e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("function", ["torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"])
def test_the_delta_rule_is_that_of_transformers(function: str):
    """Qwen3-Next's, in chunks and position by position: the outputs, the state, and in chunks the gradients."""
    torch = pytest.importorskip("torch")
    qwen3_next = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
    from p74_gated_delta import delta_rule

    arrays, chunk = of_a_text(21, 6, 5), 8
    theirs = [torch.tensor(each, requires_grad=True) for each in arrays]
    q, k, v, beta, log_alpha, state = theirs
    more = {"chunk_size": chunk} if "chunk" in function else {}
    out, last = getattr(qwen3_next, function)(
        *(each[None, :, None] for each in (q, k, v)), g=log_alpha[None, :, None], beta=beta[None, :, None],
        initial_state=state[None, None], output_final_state=True, use_qk_l2norm_in_kernel=True, **more,
    )  # fmt: skip
    ours, our_last = delta_rule(*arrays, chunk)
    np.testing.assert_allclose(ours, out[0, :, 0].detach(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(our_last, last[0, 0].detach(), rtol=1e-4, atol=1e-5)
    if more:
        (out.square().sum() + last.square().sum()).backward()

        def loss(*arrays: jax.Array) -> jax.Array:
            return sum(jnp.sum(jnp.square(each)) for each in delta_rule(*arrays, chunk))

        for gradient, each in zip(jax.grad(loss, range(6))(*map(jnp.asarray, arrays)), theirs, strict=True):
            np.testing.assert_allclose(gradient, each.grad, rtol=1e-3, atol=1e-4)


def test_latent_attention_is_attention_with_expanded_keys_and_values():
    """Head by head and position by position in NumPy, as in the paper's equations, with nothing absorbed."""
    from p66_latent_attention import LatentAttention

    H, K, C, R, T = 3, 4, 5, 2, 6
    attn, x = LatentAttention(H * K, H, C, R, 50.0, nnx.Rngs(0)), np.random.default_rng(0).standard_normal((T, H * K))
    q, down, k_up, v_up, out = (
        np.asarray(getattr(attn, name).kernel[...], float)
        for name in ("q_proj", "down_proj", "k_up", "v_up", "out_proj")
    )

    def rotated(row: np.ndarray, position: int) -> np.ndarray:
        angles = position / 50.0 ** (np.arange(R // 2) / (R // 2))
        turned = (row[: R // 2] + 1j * row[R // 2 :]) * np.exp(1j * angles)
        return np.concatenate([turned.real, turned.imag])

    heads = np.zeros((T, H * K))
    for t, h in itertools.product(range(T), range(H)):
        query = (x[t] @ q)[h * (K + R) : (h + 1) * (K + R)]
        scores = []
        for s in range(t + 1):
            row = x[s] @ down
            key = np.concatenate([(row[:C] @ k_up)[h * K : (h + 1) * K], rotated(row[C:], s)])
            scores.append(np.concatenate([query[:K], rotated(query[K:], t)]) @ key / np.sqrt(K + R))
        values = (x[: t + 1] @ down)[:, :C] @ v_up[:, h * K : (h + 1) * K]
        heads[t, h * K : (h + 1) * K] = softmax(np.array(scores)) @ values
    np.testing.assert_allclose(attn(jnp.asarray(x, jnp.float32)), heads @ out, rtol=1e-4, atol=1e-5)


@pytest.mark.oracle
def test_latent_attention_is_that_of_transformers():
    """DeepSeek-V3's attention with random numbers, without the norm of the latent vectors, which the problem leaves
    out."""
    torch = pytest.importorskip("torch")
    deepseek = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    from p66_latent_attention import LatentAttention

    H, K, C, R, T, base = 3, 4, 5, 2, 6, 50.0
    ours, x = LatentAttention(H * K, H, C, R, base, nnx.Rngs(0)), np.random.default_rng(0).standard_normal((T, H * K))
    config = deepseek.DeepseekV3Config(
        hidden_size=H * K, num_attention_heads=H, num_key_value_heads=H, q_lora_rank=None, kv_lora_rank=C,
        qk_rope_head_dim=R, qk_nope_head_dim=K, v_head_dim=K, rope_interleave=False, attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": base}, attn_implementation="eager",
    )  # fmt: skip
    theirs = deepseek.DeepseekV3Attention(config, layer_idx=0).eval()
    theirs.kv_a_layernorm = torch.nn.Identity()
    q, down, k_up, v_up, out = (
        torch.tensor(np.asarray(getattr(ours, name).kernel[...]))
        for name in ("q_proj", "down_proj", "k_up", "v_up", "out_proj")
    )
    up = torch.cat([k_up.reshape(C, H, K), v_up.reshape(C, H, K)], dim=2).reshape(
        C, -1
    )  # theirs has both beside each other
    layers = {"q_proj": q, "kv_a_proj_with_mqa": down, "kv_b_proj": up, "o_proj": out}
    with torch.no_grad():
        for name, kernel in layers.items():
            getattr(theirs, name).weight.copy_(kernel.T)
        given = torch.tensor(x, dtype=torch.float32)[None]
        places = deepseek.DeepseekV3RotaryEmbedding(config)(given, torch.arange(T)[None])
        hidden = torch.triu(torch.full((T, T), float("-inf")), diagonal=1)[None, None]
        expected = theirs(given, position_embeddings=places, attention_mask=hidden)[0][0].numpy()
    np.testing.assert_allclose(ours(jnp.asarray(x, jnp.float32)), expected, rtol=1e-4, atol=1e-5)
