"""The schedule, weight decay, clipping and the non-finite guard."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from flax import nnx

from harness.model.general import make_gpt
from harness.training.optimizer import (
    decayed,
    learning_rate,
    make_optimizer,
    muon_axes,
    of_updates,
    skipped_updates,
)
from harness.training.sharding import make_mesh, path_names
from tests.harness.conftest import TINY

pytestmark = pytest.mark.fast

LATENT = {"mixer": "latent_attention", "d_latent": 6, "d_rope": 4, "positions": "rope"}
STATES = {"mixer": "state_space", "d_state": 5, "positions": "none"}
CONFIG = replace(TINY, steps=100, warmup_steps=20, learning_rate=1.4e-3, final_lr_fraction=0.1)


def test_the_schedule_warms_up_and_reaches_its_floor_at_the_last_step() -> None:
    rate = learning_rate(CONFIG)
    assert math.isclose(rate(0), 1.4e-8, rel_tol=1e-2)  # float32 cancellation
    assert math.isclose(rate(10), (1.4e-8 + 1.4e-3) / 2, rel_tol=1e-5)
    assert math.isclose(rate(20), 1.4e-3, rel_tol=1e-5)
    # decay_steps includes the warm-up: halfway down after 20 + 40 steps, at the floor after 100, not after 120.
    assert math.isclose(rate(60), (1.4e-3 + 1.4e-4) / 2, rel_tol=1e-5)
    assert math.isclose(rate(100), 1.4e-4, rel_tol=1e-5)
    assert math.isclose(rate(500), 1.4e-4, rel_tol=1e-5)


def test_without_warm_up_the_schedule_starts_at_the_peak_and_may_be_constant() -> None:
    assert math.isclose(learning_rate(replace(CONFIG, warmup_steps=0))(0), 1.4e-3, rel_tol=1e-5)
    constant = learning_rate(replace(CONFIG, warmup_steps=0, final_lr_fraction=1.0))
    assert all(math.isclose(constant(step), 1.4e-3, rel_tol=1e-5) for step in (0, 50, 100))


def test_the_first_update_takes_the_first_step_of_the_schedule_and_the_last_one_its_end() -> None:
    rate = of_updates(CONFIG, learning_rate(CONFIG))
    assert math.isclose(rate(0), 1.4e-3 / 20, rel_tol=1e-3)
    assert math.isclose(rate(19), 1.4e-3, rel_tol=1e-5)
    assert math.isclose(rate(99), 1.4e-4, rel_tol=1e-5)
    # That of a run from before began with hardly any rate.
    assert math.isclose(of_updates(replace(CONFIG, schedule_start=0), learning_rate(CONFIG))(0), 1.4e-8, rel_tol=1e-2)


def test_a_plateau_lasts_until_the_decay_starts() -> None:
    config = replace(CONFIG, schedule="plateau", decay_start=60, final_lr_fraction=0.1)
    rate = learning_rate(config)
    rates = [float(rate(step)) for step in (0, 10, 20, 60, 80, 100, 120)]
    expected = [1.4e-8, 1.4e-3 * (1e-5 + 1) / 2, 1.4e-3, 1.4e-3, 1.4e-3 * 0.55, 1.4e-4, 1.4e-4]
    np.testing.assert_allclose(rates, expected, rtol=1e-4, atol=1e-10)
    # Before its end, no rate depends on when that is.
    endless = learning_rate(replace(config, decay_start=0, steps=10_000))
    assert [float(endless(step)) for step in range(61)] == pytest.approx([float(rate(step)) for step in range(61)])
    assert float(endless(9000)) == pytest.approx(1.4e-3)
    assert float(learning_rate(replace(config, warmup_steps=0))(0)) == pytest.approx(1.4e-3)


VECTORS = {
    "blocks.attn.out.bias", "blocks.attn.qkv.bias", "blocks.ff1.bias", "blocks.ff2.bias", "blocks.ln1.bias",
    "blocks.ln1.scale", "blocks.ln2.bias", "blocks.ln2.scale", "head_bias", "ln_f.bias", "ln_f.scale",
}  # fmt: skip


@pytest.mark.parametrize(
    ("decay", "kept"), [("matrices", VECTORS), ("kernels", VECTORS | {"embed", "pos_embed"}), ("all", set[str]())]
)
def test_what_decays(decay: str, kept: set[str]) -> None:
    """Stacked biases are no matrices."""
    model = make_gpt(replace(TINY, head_bias=True, tied_head=False), nnx.Rngs(0))
    mask = decayed(decay, nnx.state(model, nnx.Param))
    by_name = {".".join(path_names(path)): bool(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(mask)}
    assert {name for name, decays in by_name.items() if not decays} == kept


def test_rates_and_skips_of_a_state_space_do_not_decay() -> None:
    mask = decayed("matrices", nnx.state(make_gpt(replace(TINY, **STATES), nnx.Rngs(0)).blocks.attn, nnx.Param))
    by_name = {".".join(path_names(path)): bool(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(mask)}
    assert {name for name, decays in by_name.items() if not decays} == {"a_log", "skip", "dt.bias"}


@pytest.mark.parametrize("decay", ["matrices", "kernels", "all"])
def test_the_optimizer_decays_what_the_setting_says(decay: str) -> None:
    """With gradients of zero, nothing else changes a parameter."""
    config = replace(CONFIG, decay=decay, weight_decay=0.5, warmup_steps=0, learning_rate=0.1, clip_norm=0.0)
    state = {"embed": jnp.ones((2, 2)), "ff1": {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}}
    optimizer = make_optimizer(config)
    updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, state), optimizer.init(state), state)
    changed = {name for name, update in (("embed", updates["embed"]), *updates["ff1"].items()) if (update != 0).all()}
    assert (
        changed == {"matrices": {"embed", "kernel"}, "kernels": {"kernel"}, "all": {"embed", "kernel", "bias"}}[decay]
    )


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, {"qkv", "out"}),
        ({"num_kv_heads": 1, "activation": "swiglu", "tied_head": False}, {"q", "kv", "gate", "out"}),
        pytest.param(LATENT, {"q", "down", "kv", "out"}, marks=pytest.mark.thorough),
        pytest.param(STATES, {"u_gate", "bc", "dt", "out_proj"}, marks=pytest.mark.thorough),
        pytest.param(
            {"mixer": "gated_delta", "positions": "none"}, {"qkvz", "ba", "out_proj"}, marks=pytest.mark.thorough
        ),
        (
            {"activation": "swiglu", "experts": 3, "d_shared": 5, "router": "softmax"},
            {"qkv", "out", "router", "gate_up", "down", "shared_gate_up", "shared_down"},
        ),
    ],
)
def test_muon_orthogonalizes_each_matrix_of_a_block_and_nothing_else(settings, names: set[str]) -> None:
    config = replace(CONFIG, optimizer="muon", weight_decay=0.0, clip_norm=0.0, warmup_steps=0, **settings)
    parameters = nnx.as_pure(
        nnx.state(make_gpt(config, nnx.Rngs(0)), nnx.Param)
    )  # as nnx.Optimizer gives them to an update
    rng = np.random.default_rng(0)
    gradients = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), parameters)
    optimizer = make_optimizer(config, rate=lambda step: 1.0)
    updates, _ = jax.jit(optimizer.update)(gradients, optimizer.init(parameters), parameters)
    updates = jax.tree.map(np.asarray, updates)  # of NumPy, what follows need not be compiled
    axes = {
        path_names(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(muon_axes(parameters), is_leaf=_axes)
    }
    assert {path[-2] for path in axes} - {"ff1", "ff2"} == names
    for path, leaf in jax.tree_util.tree_leaves_with_path(updates):
        size = np.sqrt(np.mean(leaf**2))
        if path_names(path) in axes:
            assert 0.14 < size < 0.23  # singular values from 0.68 to 1.14, and 0.2 at 1
        else:
            assert math.isclose(size, 1, rel_tol=1e-2)  # Adam's first step
    kernels = {path_names(path)[-2]: leaf[0] for path, leaf in jax.tree_util.tree_leaves_with_path(updates)
               if path_names(path)[-1] == "kernel"}  # fmt: skip
    for name in names & {"qkv", "q", "kv", "u_gate", "bc"}:
        parts = [kernels[name]] if name == "q" else [kernels[name][:, part] for part in range(kernels[name].shape[1])]
        for matrix in (part.reshape(len(part), -1) for part in parts):
            values = np.linalg.svd(matrix / (0.2 * max(matrix.shape) ** 0.5))[1]
            assert np.all((values > 0.4) & (values < 1.2)), name


@pytest.mark.parametrize("nesterov", [False, True])
def test_muon_is_that_of_optax(nesterov: bool) -> None:
    config = replace(CONFIG, optimizer="muon", muon_nesterov=nesterov, weight_decay=0.1, clip_norm=0.0)
    own = make_optimizer(config, rate=lambda step: 0.01)
    theirs = optax.contrib.muon(0.01, beta=0.95, nesterov=nesterov, consistent_rms=0.2, weight_decay=0.1)
    rng = np.random.default_rng(0)
    first = {"ff1": {"kernel": jnp.asarray(rng.normal(size=(6, 8)), jnp.float32)}}
    ends = []
    for optimizer in (own, theirs):
        parameters, state, rng = first, optimizer.init(first), np.random.default_rng(1)
        for _ in range(3):
            gradients = {"ff1": {"kernel": jnp.asarray(rng.normal(size=(6, 8)), jnp.float32)}}
            updates, state = optimizer.update(gradients, state, parameters)
            parameters = optax.apply_updates(parameters, updates)
        ends.append(np.asarray(parameters["ff1"]["kernel"]))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5, atol=1e-6)


def test_the_state_of_muon_can_be_made_abstractly_on_a_mesh() -> None:
    config = replace(CONFIG, optimizer="muon")

    def make() -> nnx.Optimizer:
        return nnx.Optimizer(make_gpt(config, nnx.Rngs(0)), make_optimizer(config), wrt=nnx.Param)

    with jax.set_mesh(make_mesh(config)):
        state = nnx.state(nnx.eval_shape(make))
    sizes = [leaf.size for leaf in jax.tree.leaves(state)]
    parameters = nnx.state(nnx.eval_shape(lambda: make_gpt(config, nnx.Rngs(0))), nnx.Param)
    kernels = [leaf.size for path, leaf in jax.tree_util.tree_leaves_with_path(parameters) if "kernel" in str(path)]
    everything = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    assert (
        2 * everything - sum(kernels) <= sum(sizes) <= 2 * everything - sum(kernels) + 20
    )  # one moment for each kernel


def _axes(value) -> bool:
    return isinstance(value, optax.contrib.MuonDimensionNumbers)


def update(config, gradients):
    parameters = jax.tree.map(jnp.ones_like, gradients)
    optimizer = make_optimizer(config)
    return optimizer.update(gradients, optimizer.init(parameters), parameters)


def test_clipping_is_by_the_global_norm() -> None:
    config = replace(CONFIG, warmup_steps=0, weight_decay=0.0, clip_norm=1.0, beta2=0.0)
    gradients = {"kernel": jnp.array([[30.0, 0.0]]), "bias": jnp.array([40.0])}
    # Adam normalizes the scale away; the first moment in its state shows the gradient that it received.
    _, state = update(config, gradients)
    moments = optax.tree_utils.tree_get(state, "mu")
    np.testing.assert_allclose(moments["kernel"] / 0.1, [[0.6, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(moments["bias"] / 0.1, [0.8], rtol=1e-5)
    _, state = update(replace(config, clip_norm=0.0), gradients)
    np.testing.assert_allclose(optax.tree_utils.tree_get(state, "mu")["bias"] / 0.1, [40.0], rtol=1e-5)


def test_a_non_finite_gradient_changes_nothing_and_is_counted() -> None:
    parameters = {"kernel": jnp.ones((2, 2))}
    optimizer = make_optimizer(CONFIG)
    state = optimizer.init(parameters)
    _, state = optimizer.update({"kernel": jnp.full((2, 2), 0.5)}, state, parameters)
    for bad in (jnp.nan, jnp.inf, -jnp.inf):
        updates, after = optimizer.update({"kernel": jnp.ones((2, 2)).at[0, 1].set(bad)}, state, parameters)
        assert not updates["kernel"].any()
        for name in ("mu", "nu"):
            np.testing.assert_array_equal(*(optax.tree_utils.tree_get(s, name)["kernel"] for s in (state, after)))
        assert (
            optax.tree_utils.tree_get_all_with_path(state, "count")[0][1]
            == optax.tree_utils.tree_get_all_with_path(after, "count")[0][1]
        )
        assert int(skipped_updates(after)) == int(skipped_updates(state)) + 1
        state = after
    _, state = optimizer.update({"kernel": jnp.ones((2, 2))}, state, parameters)
    assert int(skipped_updates(state)) == 3
