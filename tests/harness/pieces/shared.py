"""What tests of pieces share: some of the pieces, and training with them beside the harness's own code."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from harness.config import Config
from harness.pieces.assemble import recipe_from
from harness.pieces.load import Pieces
from harness.training.sharding import make_mesh, put_batch
from harness.training.train_step import StepFunctions, make_step_functions


def only(pieces: Pieces, *names: str) -> Pieces:
    """The pieces with these names."""
    return replace(pieces, by_name={name: pieces.by_name[name] for name in names})


def keep(workspace: Path, *modules: str) -> None:
    """Removes all files of a workspace but those whose names begin so: every piece costs a smoke test."""
    for file in workspace.glob("*.py"):
        if not file.stem.startswith(modules):
            file.unlink()


def functions_with(pieces: Pieces, config: Config) -> tuple[Mesh, StepFunctions]:
    """The step functions of a run with the pieces."""
    mesh = make_mesh(config)
    return mesh, make_step_functions(config, mesh, recipe_from(config, mesh, pieces))


def some_ids(batches: int) -> list[np.ndarray]:
    """Batches of 8 rows of 13 ids below 61."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 61, (8, 13)).astype(np.int32) for _ in range(batches)]


def losses_with(pieces: Pieces, config: Config, steps: int) -> list[float]:
    """The losses of steps on one batch."""
    mesh, functions = functions_with(pieces, config)
    state, ids, losses = functions.init(), put_batch(some_ids(1)[0], mesh), []
    for _ in range(steps):
        state, metrics = functions.train_step(state, ids)
        losses.append(float(metrics.loss))
    return losses


def filled(model: Any) -> Any:
    """The model with parameters whose outputs differ much."""
    rng, state = np.random.default_rng(1), nnx.state(model)
    nnx.update(model, jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), state))
    return model


def check_same_losses(
    config: Config, pieces: Pieces, named: Callable[[dict[str, Any]], dict[str, Any]], batches: Iterable[np.ndarray]
) -> list[float]:
    """Trains the harness's model and that of the pieces from the same parameters. Returns the losses.

    `named` gives the harness's parameters the names that those of the pieces have.
    """
    mesh = make_mesh(config)
    own = make_step_functions(config, mesh)
    state = own.init()
    start = jax.tree.map(jnp.array, nnx.to_pure_dict(nnx.state(own.model(state))))

    mesh, with_pieces = functions_with(pieces, config)
    model, optimizer = nnx.merge(with_pieces.graph, with_pieces.init())
    parameters = nnx.state(model)
    nnx.replace_by_pure_dict(parameters, named(start))
    nnx.update(model, parameters)
    piece_state = nnx.state((model, optimizer))

    losses: list[tuple[float, float]] = []
    for batch in batches:
        state, own_metrics = own.train_step(state, put_batch(batch, mesh))
        piece_state, metrics = with_pieces.train_step(piece_state, put_batch(batch, mesh))
        losses.append((float(own_metrics.loss), float(metrics.loss)))
    # The order of summation differs, and Adam's first steps amplify differences of tiny gradients.
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-4)
    return [loss for loss, _ in losses]
