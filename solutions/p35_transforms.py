"""Problem 35, reference: jit, grad and vmap of models that change."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Float


@nnx.jit
def train_step(
    model: nnx.Module, optimizer: nnx.Optimizer, x: Float[jax.Array, "B D"], y: Float[jax.Array, "B"]
) -> Float[jax.Array, ""]:
    """Updates model and optimizer in place. Returns the mean squared error before the update."""

    def mean_squared_error(model: nnx.Module) -> Float[jax.Array, ""]:
        return jnp.mean((model(x) - y) ** 2)

    loss, gradients = nnx.value_and_grad(mean_squared_error)(model)
    optimizer.update(model, gradients)
    return loss


def input_gradient(model: nnx.Module, x: Float[jax.Array, "B D"]) -> Float[jax.Array, "B D"]:
    """Passes the model as an argument, so that nnx.grad can carry its changes back."""
    return nnx.grad(lambda model, x: jnp.sum(model(x)), argnums=1)(model, x)


def member_outputs(models: nnx.Module, x: Float[jax.Array, "B D"]) -> Float[jax.Array, "E B"]:
    """Maps over axis 0 of every Variable, and over no axis of x."""
    return nnx.vmap(lambda model, x: model(x), in_axes=(0, None))(models, x)
