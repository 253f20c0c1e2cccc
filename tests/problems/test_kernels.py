"""The references of the part "Close to the machine" agree with independent oracles."""

import sys
from collections import Counter
from functools import partial
from itertools import islice

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.experimental import pallas as pl

from harness.data.train_tokenizer import train
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def close(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("T", "block"), [(12, 4), (11, 4), (5, 8)])
def test_flash_attention_equals_attention_of_jax(T: int, block: int, causal: bool):
    from p43_flash_attention import flash_attention

    q, k, v, cotangent = jax.random.normal(jax.random.key(0), (4, T, 6))

    def oracle(q, k, v):
        out = jax.nn.dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=causal)[:, 0]
        # That function returns the log-sum-exp as well, but stops its gradient.
        scores = jnp.where(jnp.tri(T, dtype=bool) | (not causal), q @ k.T / 6**0.5, -jnp.inf)
        return out, jax.nn.logsumexp(scores, axis=1)

    def with_gradients(attention):
        outputs, pull_back = jax.vjp(attention, q, k, v)
        return *outputs, *pull_back((cotangent, cotangent[:, 0]))

    got = jax.jit(lambda: with_gradients(lambda q, k, v: flash_attention(q, k, v, block, causal, True)))()
    for array, expected in zip(got, jax.jit(lambda: with_gradients(oracle))(), strict=True):
        close(array, expected)


@pytest.mark.parametrize(
    ("name", "body", "lowered"),
    [
        ("einsum", lambda x: x * jnp.einsum("td,td->t", x, x)[:, None], True),
        ("prod", lambda x: x * jnp.prod(x, axis=1, keepdims=True), False),
        ("cumsum", lambda x: jnp.cumsum(x, axis=1), False),
        ("sort", lambda x: jnp.sort(x, axis=1), False),
    ],
)
def test_what_problem_44_says_of_kernels_for_a_tpu(name: str, body, lowered: bool):
    def kernel(x_ref, out_ref):
        out_ref[...] = body(x_ref[...])

    def run(x):
        rows = pl.BlockSpec((8, 12), lambda i: (i, 0))
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=like, grid=(3,), in_specs=[rows], out_specs=rows)(x)

    device = jax.sharding.AbstractDevice("TPU v5e", 1, platform="tpu")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        lower = partial(jax.export.export(jax.jit(run), platforms=["tpu"]), jax.ShapeDtypeStruct((24, 12), "float32"))
        if lowered:
            assert "tpu_custom_call" in lower().mlir_module()
        else:
            with pytest.raises(NotImplementedError, match=f"(reduce_)?{name}"):
                lower()


def test_muon_equals_that_of_optax():
    from p46_muon import muon

    shapes = {"wide": (3, 5), "tall": (5, 3), "square": (4, 4)}
    rng = np.random.default_rng(0)
    start = {name: {"kernel": rng.standard_normal(shape).astype("float32")} for name, shape in shapes.items()}
    slopes = [jax.tree.map(lambda x, n=n: x * 10.0**n, jax.tree.map(np.sin, start)) for n in (-1, 1, 0)]

    def oracle(tree):
        return jax.tree.map(lambda u: 0.2 * max(u.shape) ** 0.5 * u, tree)

    def matrices(tree):
        return jax.tree.map(lambda _: optax.contrib.MuonDimensionNumbers(), tree)

    theirs = optax.chain(
        optax.contrib.scale_by_muon(beta=0.8, nesterov=False, weight_dimension_numbers=matrices),
        optax.stateless(lambda tree, _: oracle(tree)),
        optax.add_decayed_weights(0.3),
        optax.scale(-0.1),
    )

    def trained(tx):
        state, parameters = tx.init(start), start
        for slope in slopes:
            updates, state = tx.update(slope, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
        return parameters

    got, expected = jax.jit(lambda: (trained(muon(0.1, 0.8, 0.3, optax.sgd(1.0))), trained(theirs)))()
    for name in shapes:
        np.testing.assert_allclose(got[name]["kernel"], expected[name]["kernel"], rtol=1e-4, atol=1e-4)


def test_problem_42_and_the_harness_train_the_same_tokenizer():
    from p42_bpe_training import train_bpe

    counts = Counter({"abc": 3, "adx": 3, "ab": 6, "dx": 5, "aaaaa": 4, " low": 7, "low": 5, " lower": 2, "naïve": 2})
    merges = train_bpe({word.encode(): count for word, count in counts.items()}, 40)
    assert merges.index((b"ab", b"c")) < merges.index(
        (b"a", b"dx")
    )  # a tie, which the joined bytes would break otherwise
    assert list(islice(train(counts), 256, 256 + len(merges))) == [left + right for left, right in merges]


@pytest.mark.parametrize("capacity", [3, 40])
def test_a_mixture_of_experts_equals_a_loop_over_its_choices(capacity: int):
    from p48_mixture_of_experts import MixtureOfExperts

    layer = MixtureOfExperts(6, 8, 5, 2, capacity, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).standard_normal((20, 6)).astype("float32")
    scores = x @ np.asarray(layer.router.kernel[...])
    odds = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected, used, share = np.zeros_like(x), np.zeros(5, int), np.zeros(5)
    for t, row in enumerate(odds):
        best = np.argsort(-row)[:2]
        for e in best:
            share[e] += 1 / 40
            if used[e] < capacity:
                y = np.maximum(x[t] @ np.asarray(layer.w_in[e]), 0) @ np.asarray(layer.w_out[e])
                expected[t] += row[e] / row[best].sum() * y
            used[e] += 1
    out, balance = layer(x)
    assert (used.max() > capacity) == (capacity == 3)
    close(out, expected)
    close(balance, 5 * np.sum(share * odds.mean(axis=0)))


@pytest.mark.parametrize(("T", "block"), [(12, 4), (11, 4), (3, 8)])
def test_the_kernel_equals_the_norm_of_flax(T: int, block: int):
    from p44_pallas_kernel import rms_norm

    x, cotangent = jax.random.normal(jax.random.key(0), (2, T, 6))
    weight = jax.random.normal(jax.random.key(1), (6,))

    def oracle(x, weight):
        norm = nnx.RMSNorm(6, epsilon=1e-3, rngs=nnx.Rngs(0))
        norm.scale[...] = weight
        return norm(x)

    out, slopes = jax.vjp(lambda x, weight: rms_norm(x, weight, 1e-3, block), x, weight)
    expected, expected_slopes = jax.vjp(oracle, x, weight)
    close(out, expected)
    for slope, expected_slope in zip(slopes(cotangent), expected_slopes(cotangent), strict=True):
        close(slope, expected_slope)
