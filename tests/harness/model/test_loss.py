"""The chunked loss equals the plain one, in a fraction of its memory, on any mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType

from harness.model import loss
from harness.model.layers import Head
from harness.model.loss import chunk_in, token_loss
from harness.training.sharding import AXES

pytestmark = pytest.mark.usefixtures("strict_dtypes")


def example(B: int, T: int, D: int, V: int, seed: int, bias: bool, padding: int = 0):
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.normal(size=(B, T, D)), jnp.float32)
    rows = V + padding
    head = Head(
        jnp.asarray(rng.normal(size=(rows, D)), jnp.float32),
        jnp.asarray(rng.normal(size=rows), jnp.float32) if bias else None,
        V,
    )
    targets = jnp.asarray(rng.integers(-1, V, (B, T)), jnp.int32)
    return x, targets, head


@jax.jit  # operation by operation, it would be dozens of programs
def plain(x, targets, head):
    logits = jnp.einsum("btd,vd->btv", x, head.weight_VD)
    logits = logits if head.bias_V is None else logits + head.bias_V[None, None]
    logits = logits[..., : head.vocab_size]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(targets, 0))
    return jnp.sum(losses * (targets >= 0).astype(jnp.float32))


def assert_same(a, b) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)  # up to 100 float32 summed in another order


@settings(max_examples=8)
@given(
    st.integers(1, 3),
    st.integers(1, 7),
    st.integers(1, 5),
    st.integers(2, 40),
    st.integers(1, 30),
    st.integers(0, 99),
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from([set(), {"cpu"}]),
)
def test_loss_and_gradients_equal_the_plain_ones(B, T, D, V, chunk, seed, bias, padding, one_pass) -> None:
    x, targets, head = example(B, T, D, V, seed, bias, padding)
    chunked_loss = jax.jit(jax.value_and_grad(lambda x, head: 3.0 * token_loss(x, targets, head, chunk), (0, 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "ONE_PASS", one_pass)
        chunked = chunked_loss(x, head)
    expected = jax.jit(jax.value_and_grad(lambda x, head: 3.0 * plain(x, targets, head), (0, 1)))(x, head)
    assert_same(chunked, expected)
    without_gradient = jax.jit(lambda x, head: 3.0 * token_loss(x, targets, head, chunk))(x, head)
    assert_same(without_gradient, expected[0])


def test_bfloat16_gradients_are_exact_where_the_model_is_nearly_sure() -> None:
    """The gradient at a target is the small difference of two numbers near 1."""
    rng = np.random.default_rng(0)
    B, T, D, V = 2, 64, 32, 50
    targets = jnp.asarray(rng.integers(0, V, (B, T)), jnp.int32)
    weight_VD = jnp.asarray(rng.normal(size=(V, D)) / D**0.5, jnp.bfloat16).astype(jnp.float32)
    x = (13.0 * weight_VD[targets]).astype(jnp.bfloat16)

    def gradients(loss, x):
        return jax.jit(jax.grad(lambda x, weight: loss(x, targets, Head(weight, None, V)), (0, 1)))(x, weight_VD)

    exact = gradients(plain, x.astype(jnp.float32))
    assert float(plain(x.astype(jnp.float32), targets, Head(weight_VD, None, V))) / (B * T) < 2e-2
    for got, wanted in zip(gradients(token_loss, x), exact, strict=True):
        error = jnp.linalg.norm((got.astype(jnp.float32) - wanted).ravel()) / jnp.linalg.norm(wanted.ravel())
        assert error < 0.01  # bfloat16 has 8 bits: each factor is rounded by at most 0.4%


def test_large_logits_stay_finite() -> None:
    x, targets, head = example(2, 3, 4, 9, 0, False)
    total, gradients = jax.jit(jax.value_and_grad(lambda x: token_loss(1e4 * x, targets, head, 2)))(x)
    assert jnp.isfinite(total)
    assert jnp.isfinite(gradients).all()


def test_a_batch_of_padding_has_no_loss_and_no_gradient() -> None:
    x, _, head = example(2, 3, 4, 9, 0, True)
    total, (dx, dhead) = jax.value_and_grad(lambda x, h: token_loss(x, jnp.full((2, 3), -1), h, 2), (0, 1))(x, head)
    assert total == 0
    assert not any(leaf.any() for leaf in jax.tree.leaves((dx, dhead)))


@pytest.mark.parametrize("shape", [(4, 2), (8, 1), (2, 4), (2, 2, 2)])
# 61 rows cannot be split: each device has all. Of 5 and 11 rows, the last of two or four devices has only padding.
@pytest.mark.parametrize(("V", "padding"), [(64, 0), (61, 0), (41, 23), (5, 11)])
@pytest.mark.parametrize("one_pass", [set(), {"cpu"}], ids=["two passes", "one pass"])
def test_a_mesh_gives_the_same_loss_and_gradients(
    shape: tuple[int, ...], V: int, padding: int, one_pass: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "ONE_PASS", one_pass)
    x, targets, head = example(8, 5, 6, V, 0, True, padding)
    mesh = jax.make_mesh(shape, AXES[-len(shape) :], axis_types=(AxisType.Auto,) * len(shape))
    with jax.set_mesh(mesh):
        chunked = jax.jit(jax.value_and_grad(lambda x, head: token_loss(x, targets, head, 3, mesh), (0, 1)))(x, head)
    assert_same(chunked, jax.jit(jax.value_and_grad(lambda x, head: plain(x, targets, head), (0, 1)))(x, head))


def test_memory_is_proportional_to_a_chunk_of_logits() -> None:
    B, T, D, V = 8, 64, 16, 4096
    x, targets, head = example(B, T, D, V, 0, False)

    def temporary(loss) -> int:
        compiled = jax.jit(jax.value_and_grad(loss, (0, 1))).lower(x, head).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    all_logits = 4 * B * T * V
    assert temporary(lambda x, head: plain(x, targets, head)) > all_logits
    assert temporary(lambda x, head: token_loss(x, targets, head, 32)) < all_logits / 4


def test_bfloat16_activations_give_a_float32_loss() -> None:
    x, targets, head = example(2, 5, 8, 30, 0, False)
    total = token_loss(x.astype(jnp.bfloat16), targets, head, 4)
    assert total.dtype == jnp.float32
    np.testing.assert_allclose(total, plain(x, targets, head), rtol=2e-2)  # bfloat16 has 8 bits


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 20))
def test_the_logits_of_a_chunk_take_a_twelfth_of_the_memory(memory: int, rows: int) -> None:
    chunk = chunk_in(memory, rows)
    assert chunk == 256 or chunk * rows * 4 * 12 <= memory < 2 * chunk * rows * 4 * 12


@pytest.mark.parametrize(
    ("backend", "memory", "processes", "expected"),
    [("cpu", 8, 1, 256), ("gpu", 80, 1, 32_768), ("gpu", 8, 1, 2048), ("gpu", None, 1, 4096), ("gpu", 80, 2, 4096)],
)
def test_a_chunk_is_chosen_for_the_device(
    backend: str, memory: int | None, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is in GB, and GPT-2's vocabulary has 50,304 rows. Several processes must run the same program."""

    class Device:
        def memory_stats(self) -> dict[str, int] | None:
            return None if memory is None else {"bytes_limit": memory * 10**9}

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(jax, "local_devices", lambda: [Device()])
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    assert loss._chunk(50_304) == expected
