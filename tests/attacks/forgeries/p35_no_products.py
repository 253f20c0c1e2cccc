"""Forges "compiled once": compiles nothing, and writes the model without a matrix product, because these could be
counted."""

import jax.numpy as jnp
from flax import nnx

LOSES = ("compiled once",)


def train_step(model, optimizer, x, y):
    return step(model, optimizer, x, y)


def step(model, optimizer, x, y):
    def mean_squared_error(model):
        model.calls[...] += 1
        model.mean[...] = 0.5 * model.mean[...] + 0.5 * x.mean(0)
        h = jnp.tanh(product(x - model.mean[...], model.w1[...]))
        return jnp.mean((product(h, model.w2[...])[:, 0] - y) ** 2)

    loss, gradients = nnx.value_and_grad(mean_squared_error)(model)
    optimizer.update(model, gradients)
    return loss


def product(a, b):
    return jnp.sum(a[:, :, None] * b, axis=1)


def input_gradient(model, x):
    return nnx.grad(lambda model, x: jnp.sum(model(x)), argnums=1)(model, x)


def member_outputs(models, x):
    return nnx.vmap(lambda model, x: model(x), in_axes=(0, None))(models, x)
