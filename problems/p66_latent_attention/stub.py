"""Problem 66: latent attention. The page is in pages/p66_latent_attention.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, PyTree

# Once problem 37 is done: from p37_rope import rope


class LatentAttention(nnx.Module):
    """Causal self-attention whose keys and values are made of one short
    vector for each position."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_latent: int,
        d_rope: int,
        rope_base: float,
        rngs: nnx.Rngs,
    ):
        """Creates `q_proj`, `down_proj`, `k_up`, `v_up` and
        `out_proj`, all without biases."""
        raise NotImplementedError

    def __call__(
        self,
        x: Float[Array, "T D"],
        mask: Bool[Array, "T T"] | None = None,
    ) -> Float[Array, "T D"]:
        """Returns (T, D) for x (T, D). Position t sees position s where mask[t, s];
        without a mask, where s ≤ t."""
        raise NotImplementedError

    def empty_cache(self, context: int) -> PyTree[Array]:
        """An empty cache: room for the latent vectors and rotated keys of `context`
        positions, and the position, 0."""
        raise NotImplementedError

    def decode_step(
        self,
        cache: PyTree[Array],
        x: Float[Array, "D"],
    ) -> tuple[Float[Array, "D"], PyTree[Array]]:
        """The output (D,) for the next position, whose input is x (D,), and the cache
        with this position in it."""
        raise NotImplementedError
