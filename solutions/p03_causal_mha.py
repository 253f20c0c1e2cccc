"""Problem 03, reference: several causal heads side by side."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class CausalMHA(nnx.Module):
    """Multi-head self-attention in which no position sees a later one (Vaswani et al. 2017, section 3.2.2)."""

    def __init__(self, d_model: int, num_heads: int, rngs: nnx.Rngs):
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        self.num_heads = num_heads
        self.q_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        T, D = x.shape
        H, K = self.num_heads, D // self.num_heads
        q_THK = self.q_proj(x).reshape(T, H, K)
        k_THK = self.k_proj(x).reshape(T, H, K)
        v_THK = self.v_proj(x).reshape(T, H, K)
        scores_HTS = jnp.einsum("thk,shk->hts", q_THK, k_THK) / jnp.sqrt(K)
        mask_TS = jnp.tril(jnp.ones((T, T), bool))
        weights_HTS = jax.nn.softmax(jnp.where(mask_TS, scores_HTS, -1e9), axis=-1)
        mixed_THK = jnp.einsum("hts,shk->thk", weights_HTS, v_THK)
        return self.out_proj(mixed_THK.reshape(T, D))
