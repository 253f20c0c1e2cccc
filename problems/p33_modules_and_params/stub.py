"""Problem 33: modules and parameters.

The page is in pages/p33_modules_and_params.md.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class StoryScorer(nnx.Module):
    """A stack of layers with two heads, and a running mean of its
    inputs that is not trained."""

    def __init__(self, d_model: int, num_topics: int, num_layers: int, rngs: nnx.Rngs):
        """Creates `mean`, `scale`, `layers` and `heads`."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "D"]) -> dict[str, Float[Array, "..."]]:
        """Returns {"topic": (num_topics,), "length": (1,)} for x (D,)."""
        raise NotImplementedError

    def observe(self, x: Float[Array, "D"]) -> None:
        """Moves `mean` a tenth of the way to x (D,), in place."""
        raise NotImplementedError
