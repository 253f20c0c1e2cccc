"""Problem 36, reference: dropout with a stream of keys. Srivastava et al. 2014, with the scale applied while
training."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class Dropout(nnx.Module):
    """Sets numbers to 0 at random while training, and scales the others up."""

    def __init__(self, rate: float, rngs: nnx.Rngs):
        self.rate = rate
        self.deterministic = False
        self.rngs = rngs.dropout.fork()

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        if self.deterministic:
            return x
        keep = jax.random.bernoulli(self.rngs(), 1 - self.rate, x.shape)
        return jnp.where(keep, x / (1 - self.rate), 0)


def predict(model: nnx.Module, x: Float[Array, "B D"]) -> Float[Array, "B F"]:
    """Calls a second object with the same Variables and modes of its own."""
    quiet = nnx.merge(*nnx.split(model))
    quiet.eval()
    return quiet(x)


def make_layers(num_layers: int, d_model: int, rngs: nnx.Rngs) -> nnx.Linear:
    """Maps the constructor over different keys."""
    return nnx.vmap(lambda rngs: nnx.Linear(d_model, d_model, rngs=rngs))(rngs.split(num_layers))
