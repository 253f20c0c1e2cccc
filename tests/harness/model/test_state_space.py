"""The scan of a state space equals a loop over positions, on a CPU and as other devices compute it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.model import state_space
from harness.model.general import make_gpt
from harness.model.state_space import selective_scan
from tests.harness.model.test_gpt import IDS, VARIANTS, filled, logits_of, step_of

pytestmark = pytest.mark.usefixtures("strict_dtypes")

CONFIG = VARIANTS["state space"]
B, T, D, N = 2, 23, 3, 4


def loop(u: Any, dt: Any, a: Any, b: Any, c: Any, state: Any) -> tuple[Any, Any]:
    """The definition."""
    rows = []
    for t in range(u.shape[1]):
        state = jnp.exp(dt[:, t, :, None] * a[None]) * state + (dt[:, t] * u[:, t])[..., None] * b[:, t, None]
        rows.append((state * c[:, t, None]).sum(-1))
    return jnp.stack(rows, 1), state


@pytest.mark.parametrize("backend", ["cpu", pytest.param("gpu", marks=pytest.mark.thorough)])
def test_the_scan_and_its_gradients_equal_those_of_a_loop(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    dt = rng.uniform(0, 1, (B, T, D))
    dt[:, 5], dt[:, 6] = 60, 0  # forgets all, then keeps all
    shapes = {"a": (D, N), "b": (B, T, N), "c": (B, T, N), "state": (B, D, N)}
    others = [rng.normal(size=shape) for shape in shapes.values()]
    values = [jnp.asarray(x, jnp.float32) for x in (rng.normal(size=(B, T, D)), dt, -np.exp(others[0]), *others[1:])]
    weights = [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((B, T, D), (B, D, N))]

    def results(scan: Any) -> Any:
        def loss(*values: Any) -> Any:
            y, last = scan(*values)
            return (y * weights[0]).sum() + (last * weights[1]).sum(), (y, last)

        return jax.jit(jax.grad(loss, argnums=tuple(range(6)), has_aux=True))(*values)

    expected = results(loop)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(state_space, "CHUNKS", {"cpu": 7})  # four chunks, the last of which is not full
    monkeypatch.setattr(state_space, "CHUNK", 9)
    for got, wanted in zip(jax.tree.leaves(results(selective_scan)), jax.tree.leaves(expected), strict=True):
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_cache_is_a_state_whose_size_does_not_depend_on_the_context() -> None:
    cache = make_gpt(CONFIG, nnx.Rngs(0)).empty_cache(3)
    assert [leaf.shape for leaf in jax.tree.leaves(cache)] == [(CONFIG.num_layers, 3, CONFIG.d_model, CONFIG.d_state)]


def test_padding_leaves_no_trace_in_the_state() -> None:
    model = filled(CONFIG)
    caches = [
        step_of(model, ids, jnp.int32(0), jnp.int32(4), model.empty_cache(2))[1] for ids in (IDS[:, :5], IDS[:, :8])
    ]
    np.testing.assert_allclose(*caches, rtol=1e-5, atol=1e-5)
    assert abs(caches[0]).max() > 1e-2


def test_the_state_reaches_past_positions_that_no_layer_sees() -> None:
    """The last logits depend on the first token."""
    model = filled(CONFIG)
    changed = logits_of(model, IDS.at[:, 0].add(1) % 97)
    assert (abs(changed[:, -1] - logits_of(model, IDS)[:, -1]).max(-1) > 1e-4).all()
