"""Problem 26, reference: a resumed run that equals the uninterrupted one, bit for bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from flax import nnx
from jaxtyping import PyTree


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def plain(state: PyTree) -> PyTree:
    """The same tree, with each typed random key as an array of integers."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if is_key(leaf) else leaf, state)


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer, rngs: nnx.Rngs, loader: Any) -> None:
    """Writes the arrays with Orbax and the loader's state as JSON beside them."""
    state = nnx.state((model, optimizer, rngs))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(f"{path}/state", plain(state))
    Path(path, "loader.json").write_text(json.dumps(loader.get_state()))


def resume(
    path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer, nnx.Rngs]], make_loader: Callable[[], Any]
) -> tuple[nnx.Module, nnx.Optimizer, nnx.Rngs, Any]:
    """Restores into an abstract target, as in problem 25, then sets the position of a fresh loader."""
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    with ocp.StandardCheckpointer() as checkpointer:
        arrays = checkpointer.restore(f"{path}/state", jax.eval_shape(plain, abstract))
    state = jax.tree.map(lambda leaf, like: jax.random.wrap_key_data(leaf) if is_key(like) else leaf, arrays, abstract)
    model, optimizer, rngs = nnx.merge(graphdef, state)
    loader = make_loader()
    loader.set_state(json.loads(Path(path, "loader.json").read_text()))
    return model, optimizer, rngs, loader
