"""Problem 39: grouped-query attention.

The page is in pages/p39_grouped_query_attention.md.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, PyTree

# Once problem 37 is done: from p37_rope import rope


class GQA(nnx.Module):
    """Causal self-attention in which groups of heads share keys and values."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        rope_base: float,
        head_dim: int | None = None,
        *,
        rngs: nnx.Rngs,
    ):
        """Creates `q_proj`, `k_proj`, `v_proj` and `out_proj`, all without biases.
        Without `head_dim`, K is D / H."""
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
        """An empty cache: room for the keys and values of `context`
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
