"""Problem 14, reference: the smallest model learns to repeat tokens."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int


class AToA(nnx.Module):
    """An embedding and a head, with nothing in between."""

    def __init__(self, vocab_size: int, d_model: int, rngs: nnx.Rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.head = nnx.Linear(d_model, vocab_size, use_bias=False, rngs=rngs)

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        return self.head(self.embed(token_ids))


@nnx.jit
def step(model: AToA, optimizer: nnx.Optimizer, batch: Int[Array, "B T"]) -> Float[Array, ""]:
    """Makes one update. Returns the mean loss before it, in nats per token."""

    def mean_loss(model: AToA) -> Float[Array, ""]:
        logits_BTV = jax.vmap(model)(batch)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits_BTV, batch))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss


def learn_identity(model: AToA, token_ids: Int[Array, "S B T"]) -> Float[Array, "S"]:
    """Trains the model with one step of Adam per batch. Returns the loss of each step."""
    optimizer = nnx.Optimizer(model, optax.adam(0.03), wrt=nnx.Param)
    return jnp.stack([step(model, optimizer, batch) for batch in token_ids])
