"""Forges "make never run for real": draws the parameters and the optimizer under jit, but not the variable that is not
trained."""

import jax
import orbax.checkpoint as ocp
from flax import nnx

LOSES = ("make never run for real",)


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, nnx.state((model, optimizer)))


def restore(path, make):
    graphdef, target = nnx.split(nnx.eval_shape(make))
    jax.jit(lambda: (nnx.state(make()[0], nnx.Param), nnx.state(make()[1])))()
    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, checkpointer.restore(path, target))
