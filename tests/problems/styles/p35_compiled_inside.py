"""The compiled function is called by train_step; state axes by name; value_and_grad with has_aux."""

from functools import partial

import jax.numpy as jnp
from flax import nnx


@nnx.jit
def _compiled(model, optimizer, batch):
    def loss_fn(model, x, y):
        scores = model(x)
        return jnp.sum(jnp.square(scores - y)) / len(y), scores

    grad_fn = nnx.value_and_grad(loss_fn, has_aux=True)
    (loss, _), grads = grad_fn(model, *batch)
    optimizer.update(model, grads)
    return loss


def train_step(model, optimizer, x, y):
    return _compiled(model, optimizer, (x, y))


@nnx.jit
def input_gradient(model, x):
    _, slope = nnx.value_and_grad(lambda m, x: m(x).sum(), argnums=1)(model, x)
    return slope


@partial(nnx.vmap, in_axes=(nnx.StateAxes({...: 0}), None), out_axes=0)
def member_outputs(models, x):
    return models(x)
