"""Problem 48: a mixture of experts. The page is in pages/p48_mixture_of_experts.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class MixtureOfExperts(nnx.Module):
    """Feed-forward networks of which each token uses `top_k`. Each of them has
    room for `capacity` tokens."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_experts: int,
        top_k: int,
        capacity: int,
        rngs: nnx.Rngs,
    ):
        """Builds `router`, an nnx.Linear without bias, and the nnx.Params `w_in` (E, D,
        F) and `w_out` (E, F, D)."""
        raise NotImplementedError

    def __call__(
        self,
        x: Float[Array, "T D"],
    ) -> tuple[Float[Array, "T D"], Float[Array, ""]]:
        """x: (T, D). Returns the output, (T, D), and the balance loss, a scalar."""
        raise NotImplementedError
