"""Problem 08, reference: a train step."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int
from p07_next_token_loss import next_token_loss


def make_optimizer(model: nnx.Module, learning_rate: float) -> nnx.Optimizer:
    """Returns an optimizer that applies Adam to the nnx.Params of the model and to nothing else."""
    return nnx.Optimizer(model, optax.adam(learning_rate), wrt=nnx.Param)


@nnx.jit
def train_step(
    model: nnx.Module, optimizer: nnx.Optimizer, token_ids: Int[Array, "B T"], pad_id: int
) -> Float[Array, ""]:
    """Updates model and optimizer in place. Returns the loss before the update, in nats per token."""

    def mean_loss(model: nnx.Module) -> Float[Array, ""]:
        logits_BTV = jax.vmap(model)(token_ids)
        return jnp.mean(jax.vmap(next_token_loss, (0, 0, None))(logits_BTV, token_ids, pad_id))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss
