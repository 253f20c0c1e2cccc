"""Problem 34, reference: models taken apart, put together and updated in place."""

from typing import Any

import jax
from flax import nnx


def average(a: nnx.Module, b: nnx.Module) -> nnx.Module:
    """Splits a, averages its parameters with those of b, and merges a new model."""
    graphdef, params, rest = nnx.split(a, nnx.Param, ...)
    mean = jax.tree.map(lambda x, y: (x + y) / 2, params, nnx.state(b, nnx.Param))
    return nnx.merge(graphdef, mean, rest, copy=True)


def copy_part(model: nnx.Module, source: nnx.Module, name: str) -> None:
    """Updates one submodule with the parameters of another."""
    nnx.update(getattr(model, name), nnx.state(getattr(source, name), nnx.Param))


def snapshot(model: nnx.Module, optimizer: nnx.Optimizer) -> Any:
    """The state of copies, because `nnx.state` alone would share the variables."""
    return nnx.state(nnx.clone(model)), nnx.state(nnx.clone(optimizer))


def restore(model: nnx.Module, optimizer: nnx.Optimizer, saved: Any) -> None:
    """Writes the saved numbers into the variables of both."""
    model_state, optimizer_state = saved
    nnx.update(model, model_state)
    nnx.update(optimizer, optimizer_state)
