"""The train step: it lowers the loss, with any number of microbatches and on any mesh, and donates its state."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.training.optimizer import learning_rate
from harness.training.sharding import by_dotted_name, make_mesh, path_names, put_batch
from harness.training.train_step import StepFunctions, make_step_functions
from tests.harness.conftest import TINY

SMALL = replace(TINY, vocab_size=96, context=12, steps=20)
MODERN = replace(
    SMALL, num_heads=4, num_kv_heads=2, norm_kind="rmsnorm", activation="swiglu", bias=False, positions="rope"
)


def rows(seed: int = 0) -> np.ndarray:
    """A batch with padding at the end of some rows."""
    ids = np.random.default_rng(seed).integers(0, 96, (8, 13)).astype(np.int32)
    ids[0, 5:] = ids[3, 2:] = -1
    return ids


@functools.cache  # tracing a program takes longer than its steps
def functions_of(config: Config) -> tuple[jax.sharding.Mesh, StepFunctions]:
    """The mesh of a config, and its programs."""
    mesh = make_mesh(config)
    with jax.set_mesh(mesh):
        return mesh, make_step_functions(config, mesh)


def run_steps(config: Config, steps: int = 5) -> tuple[list[float], StepFunctions, object]:
    """The losses of some steps on fixed batches and of an evaluation after them, and the last state."""
    mesh, functions = functions_of(config)
    with jax.set_mesh(mesh):
        state = functions.init()
        losses = []
        for step in range(steps):
            state, metrics = functions.train_step(state, put_batch(rows(step % 2), mesh))
            losses.append(float(metrics.loss))
        loss, count = functions.eval_step(state, put_batch(rows(), mesh))
    return [*losses, float(loss) / int(count)], functions, state


@pytest.fixture(scope="module")
def one_device() -> list[float]:
    """The losses on one device."""
    return run_steps(SMALL)[0]


def test_training_lowers_the_loss(one_device: list[float]) -> None:
    # `jax.jit` of a function that mutates modules would lose the update.
    assert one_device[4] < one_device[0] - 0.1


@pytest.mark.parametrize(
    ("mesh", "fsdp"),
    [
        ("4x2", True),
        ("8x1", False),
        *(pytest.param(*other, marks=pytest.mark.thorough) for other in (("2x2", True), ("4x2", False), ("8x1", True))),
    ],
)
def test_a_mesh_gives_the_losses_of_one_device(mesh: str, fsdp: bool, one_device: list[float]) -> None:
    losses, _, _ = run_steps(replace(SMALL, mesh=mesh, fsdp=fsdp))
    # The order of summation changes the last bits of float32, and Adam divides small gradients by small moments.
    np.testing.assert_allclose(losses, one_device, rtol=1e-4)


@pytest.fixture(scope="module")
def modern_on_one_device() -> list[float]:
    """The losses of the modern block on one device."""
    return run_steps(MODERN)[0]


# Four devices along `model` split the attention heads, but not the two heads of keys and values, which are replicated.
@pytest.mark.parametrize(("mesh", "fsdp"), [pytest.param("4x2", True, marks=pytest.mark.thorough), ("2x4", False)])
def test_a_mesh_gives_the_losses_of_one_device_with_grouped_heads(
    mesh: str, fsdp: bool, modern_on_one_device: list[float]
) -> None:
    losses, _, state = run_steps(replace(MODERN, mesh=mesh, fsdp=fsdp))
    np.testing.assert_allclose(losses, modern_on_one_device, rtol=1e-4)  # as above
    specs = {
        ".".join(path_names(path)[-2:]): leaf.sharding.spec for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }
    assert "model" in specs["q.kernel"]
    assert "model" in specs["gate.kernel"]
    assert ("model" in specs["kv.kernel"]) == (mesh == "4x2")


@pytest.mark.parametrize(
    "settings",
    [
        dict(mixer="latent_attention", d_latent=6, d_rope=4, positions="rope"),
        pytest.param(  # its heads do not matter
            dict(mixer="state_space", d_state=3, positions="none", num_heads=3, d_model=18), marks=pytest.mark.thorough
        ),
        pytest.param(dict(mixer="state_space", attention_every=2, num_layers=4), marks=pytest.mark.thorough),
        pytest.param(dict(mixer="gated_delta", positions="none"), marks=pytest.mark.thorough),
        pytest.param(
            dict(activation="swiglu", experts=4, d_shared=8, router_bias_rate=0.1, num_kv_heads=2, sinks=True),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_mesh_gives_the_losses_of_one_device_with_other_mixers(settings: dict[str, Any]) -> None:
    config = replace(SMALL, **settings)
    losses, _, state = run_steps(replace(config, mesh="2x2", fsdp=True))
    np.testing.assert_allclose(losses, run_steps(config)[0], rtol=1e-4)  # as above
    specs = {
        ".".join(path_names(path)[-2:]): leaf.sharding.spec for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }
    split = {
        "latent_attention": ("q.kernel", "kv.kernel", "out.kernel"),
        "state_space": ("u_gate.kernel", "dt.kernel", "attn.a_log"),
        "gated_delta": ("qkvz.kernel", "ba.kernel", "out_proj.kernel"),
        "attention": ("gate_up.kernel", "down.kernel", "shared_gate_up.kernel", "attn.sinks"),
    }
    for name in split[config.mixer]:
        assert "model" in specs[name], name


def test_a_vocabulary_that_does_not_divide_is_padded_and_sharded() -> None:
    _, functions = functions_of(
        replace(SMALL, vocab_size=2045, mesh="1x4", tied_head=False, head_bias=True, num_heads=4)
    )
    leaves = by_dotted_name(functions.abstract_state)
    for name in ("0.embed", "0.head", "0.head_bias"):
        assert leaves[name].shape[0] == 2048
        assert leaves[name].sharding.spec[0] == "model"
    model = functions.model(functions.init())
    assert model(jnp.zeros((1, 4), jnp.int32)).shape == (1, 4, 2045)


@pytest.mark.parametrize("microbatches", [2, 8])
def test_microbatches_give_the_losses_of_the_whole_batch(microbatches: int, one_device: list[float]) -> None:
    losses, _, _ = run_steps(replace(SMALL, grad_accumulation_steps=microbatches))
    np.testing.assert_allclose(losses, one_device, rtol=1e-4)  # a mean of means would differ by the padding


def test_microbatches_take_the_memory_of_one() -> None:
    def temporary(batch_size: int, microbatches: int) -> int:
        config = replace(
            SMALL, context=64, batch_size=batch_size, grad_accumulation_steps=microbatches, d_model=32, d_ff=128
        )
        mesh = make_mesh(config)
        functions = make_step_functions(config, mesh)
        ids = jax.ShapeDtypeStruct((batch_size, 65), jnp.int32)
        return functions.train_step.lower(functions.abstract_state, ids).compile().memory_analysis().temp_size_in_bytes

    whole, parts, one = temporary(64, 1), temporary(64, 16), temporary(4, 1)
    assert parts < whole / 4
    assert parts < 2 * one  # and the sum of the gradients


def test_the_average_moves_fast_at_first() -> None:
    """Otherwise it would keep the random parameters of the start."""
    mesh, functions = functions_of(replace(SMALL, ema_decay=0.9, num_layers=0, warmup_steps=0))
    state = functions.init()
    start = np.asarray(functions.model(state).embed[...])
    state, _ = functions.train_step(state, put_batch(rows(), mesh))
    trained = np.asarray(nnx.merge(functions.graph, state)[0].embed[...])
    expected = start + (1 - 2 / 11) * (trained - start)
    np.testing.assert_allclose(functions.model(state).embed[...], expected, rtol=1e-5, atol=1e-7)
    assert np.abs(trained - start).max() > 1e-4


@pytest.mark.thorough
def test_evaluation_uses_the_average_of_the_parameters() -> None:
    mesh, functions = functions_of(replace(SMALL, ema_decay=0.9))
    _, plain = functions_of(SMALL)
    state, plain_state = functions.init(), plain.init()
    expected = np.asarray(plain.model(plain_state).embed[...])
    for step in range(1, 4):
        batch = put_batch(rows(), mesh)
        state, metrics = functions.train_step(state, batch)
        plain_state, plain_metrics = plain.train_step(plain_state, batch)
        assert metrics.loss == plain_metrics.loss  # the average does not affect the training
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * np.asarray(plain.model(plain_state).embed[...])
    np.testing.assert_allclose(functions.model(state).embed[...], expected, rtol=1e-5, atol=1e-7)
    losses = [float(each.eval_step(s, batch)[0]) for each, s in ((functions, state), (plain, plain_state))]
    assert losses[0] != losses[1]


def test_the_old_state_is_donated() -> None:
    mesh, functions = functions_of(SMALL)
    state = functions.init()
    functions.train_step(state, put_batch(rows(), mesh))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state) if leaf.size > 1)


def specs(config: Config) -> dict[str, jax.Array]:
    _, _, state = run_steps(config, steps=1)
    return {".".join(path_names(path)): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state)}


@pytest.mark.thorough
@pytest.mark.parametrize(("optimizer", "moments"), [("adamw", 2), ("muon", 1)])
def test_parameters_and_moments_are_sharded_over_the_mesh(optimizer: str, moments: int) -> None:
    leaves = specs(replace(SMALL, mesh="4x2", optimizer=optimizer))
    for name, leaf in leaves.items():
        if name.endswith(("ff1.kernel", "qkv.kernel", "ff2.kernel", "out.kernel", ".embed")):
            assert leaf.addressable_shards[0].data.nbytes * 2 == leaf.nbytes, name
    assert sum(name.endswith("ff1.kernel") for name in leaves) == 1 + moments


def test_fsdp_shards_moments_as_well() -> None:
    leaves = specs(replace(SMALL, mesh="8x1", fsdp=True))
    large = {name: leaf for name, leaf in leaves.items() if leaf.size >= 16 * 24}
    assert len(large) >= 3 * 5
    for name, leaf in large.items():
        assert leaf.addressable_shards[0].data.nbytes * 8 == leaf.nbytes, name


def test_copies_of_a_mesh_split_the_batch_and_each_has_all_parameters(one_device: list[float]) -> None:
    losses, _, state = run_steps(replace(SMALL, mesh="2x2x2", fsdp=True))
    np.testing.assert_allclose(losses, one_device, rtol=1e-4)  # as above
    leaf = by_dotted_name(state)["0.embed"]
    assert len(leaf.sharding.device_set) == 8
    assert leaf.addressable_shards[0].data.nbytes * 4 == leaf.nbytes


def test_zero1_shards_moments_alone_and_gives_the_losses_of_one_device(one_device: list[float]) -> None:
    losses, _, state = run_steps(replace(SMALL, mesh="8x1", zero1=True))
    np.testing.assert_allclose(losses, one_device, rtol=1e-4)  # as above
    large = {name: leaf for name, leaf in by_dotted_name(state).items() if leaf.size >= 16 * 24}
    assert {name[0] for name in large} == {"0", "1"}
    for name, leaf in large.items():
        assert leaf.addressable_shards[0].data.nbytes * (1 if name[0] == "0" else 8) == leaf.nbytes, name


def test_the_reported_norm_is_from_before_clipping() -> None:
    norms = []
    for clip in (SMALL.clip_norm, 1e-3):
        mesh, functions = functions_of(replace(SMALL, clip_norm=clip))
        _, metrics = functions.train_step(functions.init(), put_batch(rows(), mesh))
        norms.append(float(metrics.gradient_norm))
    assert norms[0] == norms[1] > 0.1


def test_a_step_that_is_not_finite_is_skipped_and_counted() -> None:
    mesh, functions = functions_of(SMALL)
    state = functions.init()
    model = functions.model(state)
    model.embed[...] = model.embed[...].at[5].set(jnp.nan)
    state = nnx.state((model, nnx.merge(functions.graph, state)[1]))
    before = jax.tree.map(np.asarray, nnx.state(functions.model(state)))
    bad = rows()
    bad[bad == 5] = 6
    bad[2, 3] = 5
    state, metrics = functions.train_step(state, put_batch(bad, mesh))
    assert int(metrics.skipped) == 1
    after = jax.tree.map(np.asarray, nnx.state(functions.model(state)))
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.thorough
def test_the_reported_learning_rate_follows_the_schedule() -> None:
    config = replace(SMALL, final_lr_fraction=0.1)
    mesh, functions = functions_of(config)
    state, rates = functions.init(), []
    for _ in range(5):
        state, metrics = functions.train_step(state, put_batch(rows(), mesh))
        rates.append(float(metrics.learning_rate))
    np.testing.assert_allclose(rates, [float(learning_rate(config)(step)) for step in range(1, 6)], rtol=1e-6)
    assert len(set(rates)) == 5


@pytest.mark.thorough
def test_dropout_depends_on_the_step_and_the_seed() -> None:
    config = replace(SMALL, dropout=0.3)
    losses, _, _ = run_steps(config)
    assert run_steps(config)[0] == losses
    assert run_steps(replace(config, seed=1))[0] != losses
