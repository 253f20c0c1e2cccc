"""Problem 34: state and filters. The page is in pages/p34_state_and_filters.md."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


def average(a: nnx.Module, b: nnx.Module) -> nnx.Module:
    """A new model with the mean of the parameters of a and b, and with
    the other variables of a."""
    raise NotImplementedError


def copy_part(model: nnx.Module, source: nnx.Module, name: str) -> None:
    """Copies the parameters of `source.NAME` into those of `model.NAME`, in place."""
    raise NotImplementedError


def snapshot(model: nnx.Module, optimizer: nnx.Optimizer) -> Any:
    """All that `restore` needs to bring both back to their present state."""
    raise NotImplementedError


def restore(model: nnx.Module, optimizer: nnx.Optimizer, saved: Any) -> None:
    """Brings both back to the state of the snapshot, in place."""
    raise NotImplementedError
