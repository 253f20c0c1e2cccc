"""Smoke tests of the pieces that training is made of: loss, steps, optimizer, shardings and checkpoints."""

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from harness.pieces.adapt import PAD_ID, LoaderPosition
from harness.pieces.smoke_tests import IDS, D, F, SmokeTestError, T, V, check_output

PARAMETERS = {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}


def run_loss(loss: Any) -> None:
    logits, ids = jnp.ones((T, V)), jnp.array([3, 1, 4, PAD_ID, PAD_ID])
    check_output(
        "next_token_loss", jax.jit(loss, static_argnums=2)(logits, ids, PAD_ID), (), f"logits of shape ({T}, {V})"
    )


def run_train_step(step: Any) -> None:
    """One step must change a parameter. The model is a table of the next token's logits, which compiles quickly."""
    model = nnx.Embed(V, V, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    before = np.asarray(model.embedding[...])
    check_output("train_step", step(model, optimizer, jnp.ones((2, T), int), PAD_ID), (), f"ids of shape (2, {T})")
    if np.array_equal(before, model.embedding[...]):
        raise SmokeTestError("train_step", "did not change any parameter.")


def run_zero_step(zero_step: Any, zero_state: Any) -> None:
    """One step on one device must change a parameter. The loss of a row is the square of the distance from its
    number."""
    mesh = one_device()

    def loss_sum(parameters: Any, rows: Array) -> tuple[Array, Array]:
        return jnp.sum((parameters["kernel"].sum() - rows) ** 2), jnp.asarray(rows.size)

    def step(parameters: Any, state: Any, rows: Array, rate: Array) -> Any:
        return zero_step(loss_sum, parameters, state, rows, mesh, rate, 1.0)

    state = zero_state(PARAMETERS, mesh)
    new, after, loss, norm = jax.jit(step)(PARAMETERS, state, jnp.ones((2, T)), jnp.float32(0.1))
    for name, given, returned in (("parameters", PARAMETERS, new), ("state", state, after)):
        kinds = [
            jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), each) for each in (given, returned)
        ]
        if kinds[0] != kinds[1]:
            raise SmokeTestError(
                "zero_step", f"returned {name} of another structure, shape or dtype than it was given."
            )
    for name, value in (("loss", loss), ("norm", norm)):
        check_output("zero_step", value, (), f"two rows, as the {name}")
    if np.array_equal(new["kernel"], PARAMETERS["kernel"]):
        raise SmokeTestError("zero_step", "did not change any parameter.")


def run_optimizer(name: str, transformation: Any) -> None:
    """An optax transformation must give an update under jit."""
    if not isinstance(transformation, optax.GradientTransformation):
        raise SmokeTestError(name, f"returned a {type(transformation).__name__}, not an optax.GradientTransformation.")
    state = transformation.init(PARAMETERS)
    updates, _ = jax.jit(transformation.update)(PARAMETERS, state, PARAMETERS)
    for key, leaf in PARAMETERS.items():
        check_output(name, updates[key], leaf.shape, "the update of a gradient")


def run_schedule(schedule: Any) -> None:
    rates = jax.jit(jax.vmap(schedule(1e-3, 2, 6)))(jnp.arange(8))
    check_output("warmup_cosine", rates, (8,), "eight steps")


def run_clip(clip: Any) -> None:
    clipped, norm = jax.jit(lambda gradients: clip(gradients, 0.5))(PARAMETERS)
    check_output("clip_by_global_norm", norm, (), "its norm")
    check_output("clip_by_global_norm", clipped["kernel"], (2, 3), "a kernel's gradient")


def run_accumulation(accumulate: Any) -> None:
    def loss_sum(parameters: Any, ids: Any) -> Any:
        return jnp.sum(parameters["kernel"]) * jnp.sum(ids), jnp.int32(ids.size)

    loss, gradients, norm = jax.jit(lambda p, ids: accumulate(loss_sum, p, ids, 2, 1.0))(
        PARAMETERS, np.stack([IDS] * 4)
    )
    check_output("accumulated_gradients", loss, (), "its loss")
    check_output("accumulated_gradients", norm, (), "its norm")
    check_output("accumulated_gradients", gradients["kernel"], (2, 3), "a kernel's gradient")


def run_guard(guard: Any) -> None:
    transformation = guard(optax.sgd(0.1))
    run_optimizer("finite_guard", transformation)
    if optax.tree_utils.tree_get(transformation.init(PARAMETERS), "skipped") is None:
        raise SmokeTestError("finite_guard", "has a state without the field `skipped`.")


def run_make_mesh(make_mesh: Any) -> None:
    mesh = make_mesh(1, 1)
    if not isinstance(mesh, Mesh) or tuple(mesh.axis_names) != ("data", "model"):
        raise SmokeTestError("make_mesh", "did not return a Mesh with the axes `data` and `model`.")


def run_spec(name: str, spec: Any) -> None:
    if not isinstance(spec, PartitionSpec) or len(spec) > 2:
        raise SmokeTestError(
            name, f"returned {spec!r:.60} for a kernel; it must return a PartitionSpec with at most two axes."
        )


def run_partition_spec(partition_spec: Any, mini_gpt: Any) -> None:
    """The specification of one kernel of MiniGPT, which is not made for it."""
    run_spec("partition_spec", partition_spec("blocks.0.ff1.kernel", (D, F), one_device()))


def run_shard_batch(shard_batch: Any) -> None:
    given = np.stack([IDS, IDS])
    placed = shard_batch(given, one_device())
    if not isinstance(placed, jax.Array) or placed.shape != given.shape:
        raise SmokeTestError("shard_batch", "did not return the batch as one array.")


def run_resume(resume: Any, save: Any) -> None:
    def make() -> Any:
        model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param), nnx.Rngs(0)

    model, optimizer, rngs = make()
    model.kernel[...] = model.kernel[...] + 1
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder).resolve() / "checkpoint")
        save(path, model, optimizer, rngs, LoaderPosition({"next_index": 7}))
        restored = resume(path, make, LoaderPosition)
    if len(restored) != 4 or not np.array_equal(restored[0].kernel[...], model.kernel[...]):
        raise SmokeTestError("resume", "did not restore the saved model.")
    if restored[3].get_state() != {"next_index": 7}:
        raise SmokeTestError("resume", "did not restore the state of the loader.")


def run_grpo_loss(loss: Any) -> None:
    """Two rows, of which one ends early, under jit."""
    log_p = jnp.full((2, T), -1.0)
    sampled = jnp.arange(T)[None] < jnp.array([[T], [T - 2]])
    value = jax.jit(loss, static_argnums=(5, 6))(log_p, log_p - 0.1, log_p, sampled, jnp.array([1.0, -1.0]), 0.2, 0.1)
    check_output("grpo_loss", value, (), f"log-probabilities of shape (2, {T})")


def run_dpo_loss(loss: Any) -> None:
    """A pair whose second answer is shorter, under jit."""
    logits, ids = jnp.ones((2, T, V)), jnp.stack([IDS, IDS])
    is_answer = (jnp.arange(T)[None] > 0) & (jnp.arange(T)[None] < jnp.array([[T], [T - 1]]))
    value = jax.jit(loss, static_argnums=4)(logits, 2 * logits, ids, is_answer, 0.1)
    check_output("dpo_loss", value, (), f"logits of shape (2, {T}, {V})")


def one_device() -> Mesh:
    return jax.make_mesh(
        (1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:1]
    )
