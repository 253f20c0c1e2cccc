"""A loop over the members, slices of their states, the input first for the gradient."""

import jax
import jax.numpy as jnp
from flax import nnx


def mse(net, x, y):
    return jnp.average((y - net(x)) ** 2)


@nnx.jit
def train_step(model, optimizer, x, y):
    value, slopes = nnx.value_and_grad(mse)(model, x, y)
    optimizer.update(model, slopes)
    return value


def input_gradient(model, x):
    return nnx.grad(lambda x, net: jnp.einsum("b->", net(x)))(x, model)


def member_outputs(models, x):
    graphdef, state = nnx.split(models)
    count = jax.tree.leaves(state)[0].shape[0]
    members = [nnx.merge(graphdef, jax.tree.map(lambda leaf, i=i: leaf[i], state)) for i in range(count)]
    scores = [member(x) for member in members]
    nnx.update(models, jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(nnx.state, members)))
    return jnp.stack(scores)
