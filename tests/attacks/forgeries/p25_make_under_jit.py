"""Forges "make never run for real": draws a whole set of parameters under jit, where the calls of `make` are not counted."""

import jax
import orbax.checkpoint as ocp
from flax import nnx

LOSES = ("make never run for real",)


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, nnx.state((model, optimizer)))


def restore(path, make):
    graphdef, _ = nnx.split(nnx.eval_shape(make))
    target = jax.jit(lambda: nnx.state(make()))()
    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, checkpointer.restore(path, target))
