"""Problem 26: a resumed run that equals the uninterrupted one, bit for bit.

The page is in pages/p26_exact_resume.md.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from flax import nnx


def save(
    path: str,
    model: nnx.Module,
    optimizer: nnx.Optimizer,
    rngs: nnx.Rngs,
    loader: Any,
) -> None:
    """Writes everything that the next step depends on to the new folder `path`
    (absolute). Returns when it is on disk."""
    raise NotImplementedError


def resume(
    path: str,
    make: Callable[[], tuple[nnx.Module, nnx.Optimizer, nnx.Rngs]],
    make_loader: Callable[[], Any],
) -> tuple[nnx.Module, nnx.Optimizer, nnx.Rngs, Any]:
    """Returns the four objects as they were saved. Called in a new process.

    `make()` and `make_loader()` make fresh objects of the same structure.
    """
    raise NotImplementedError
