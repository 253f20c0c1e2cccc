"""Flattened logits and targets; the losses collected as floats."""

import jax.numpy as jnp
import optax
from flax import nnx


class AToA(nnx.Module):
    def __init__(self, vocab_size: int, d_model: int, rngs: nnx.Rngs):
        self.embed = nnx.Embed(vocab_size, d_model, embedding_init=nnx.initializers.normal(0.02), rngs=rngs)
        self.head = nnx.Linear(d_model, vocab_size, rngs=rngs, use_bias=False)

    def __call__(self, x):
        return self.head(self.embed(x))


@nnx.jit
def train(model, optimizer, ids):
    def loss_fn(model):
        flat = ids.reshape(-1)
        return optax.losses.softmax_cross_entropy_with_integer_labels(model(flat), flat).mean()

    loss, grads = nnx.value_and_grad(loss_fn)(model)
    optimizer.update(model, grads)
    return loss


def learn_identity(model, token_ids):
    optimizer = nnx.Optimizer(model, optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)), wrt=nnx.Param)
    losses = []
    for ids in token_ids:
        losses.append(float(train(model, optimizer, ids)))
    return jnp.array(losses)
