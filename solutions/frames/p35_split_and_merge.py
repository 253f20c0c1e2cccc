"""JAX's own transforms on states, with split, merge and update by hand."""

import jax
from flax import nnx


@nnx.jit
def train_step(model, optimizer, x, y):
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)

    def loss_of(params, rest):
        net = nnx.merge(graphdef, params, rest, copy=True)
        error = net(x) - y
        return (error * error).mean(), nnx.state(net, nnx.Not(nnx.Param))

    (loss, rest), gradients = jax.value_and_grad(loss_of, has_aux=True)(params, rest)
    nnx.update(model, rest)
    optimizer.update(model, gradients)
    return loss


def input_gradient(model, x):
    graphdef, state = nnx.split(model)

    def total(x, state):
        net = nnx.merge(graphdef, state, copy=True)
        return net(x).sum(), nnx.state(net)

    gradient, state = jax.grad(total, has_aux=True)(x, state)
    nnx.update(model, state)
    return gradient


def member_outputs(models, x):
    graphdef, state = nnx.split(models)

    def one(state):
        net = nnx.merge(graphdef, state, copy=True)
        return net(x), nnx.state(net)

    scores, state = jax.vmap(one)(state)
    nnx.update(models, state)
    return scores
