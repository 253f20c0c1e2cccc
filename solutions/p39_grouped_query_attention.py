"""Problem 39, reference: grouped-query attention."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int
from p37_rope import rope

Cache = dict[str, Array]


class GQA(nnx.Module):
    """Causal self-attention in which groups of heads share keys and values (Ainslie et al. 2023)."""

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
        K = head_dim or d_model // num_heads
        self.H, self.G, self.K, self.rope_base = num_heads, num_kv_heads, K, rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * K, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, num_kv_heads * K, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, num_kv_heads * K, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(num_heads * K, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"], mask: Bool[Array, "T T"] | None = None) -> Float[Array, "T D"]:
        T = len(x)
        mask_TS = jnp.tril(jnp.ones((T, T), bool)) if mask is None else mask
        return self.attend(*self.project(x, jnp.arange(T)), mask_TS)

    def project(
        self, x: Float[Array, "T D"], positions: Int[Array, "T"]
    ) -> tuple[Float[Array, "T H K"], Float[Array, "T G K"], Float[Array, "T G K"]]:
        """The rotated queries and keys, and the values."""
        q_THK = self.q_proj(x).reshape(-1, self.H, self.K)
        k_TGK = self.k_proj(x).reshape(-1, self.G, self.K)
        v_TGK = self.v_proj(x).reshape(-1, self.G, self.K)
        return rope(q_THK, positions, self.rope_base), rope(k_TGK, positions, self.rope_base), v_TGK

    def attend(
        self,
        q_THK: Float[Array, "T H K"],
        k_SGK: Float[Array, "S G K"],
        v_SGK: Float[Array, "S G K"],
        mask_TS: Bool[Array, "T S"],
    ) -> Float[Array, "T D"]:
        """Attention of H heads to G heads of keys and values: head h uses number h // (H / G)."""
        k_SHK = jnp.repeat(k_SGK, self.H // self.G, axis=1)
        v_SHK = jnp.repeat(v_SGK, self.H // self.G, axis=1)
        scores_HTS = jnp.einsum("thk,shk->hts", q_THK, k_SHK) / jnp.sqrt(self.K)
        weights_HTS = jax.nn.softmax(jnp.where(mask_TS, scores_HTS, -1e9))
        mixed_THK = jnp.einsum("hts,shk->thk", weights_HTS, v_SHK)
        return self.out_proj(mixed_THK.reshape(len(q_THK), -1))

    def empty_cache(self, context: int) -> Cache:
        rows_SGK = jnp.zeros((context, self.G, self.K))
        return {"position": jnp.int32(0), "keys": rows_SGK, "values": rows_SGK}

    def decode_step(self, cache: Cache, x: Float[Array, "D"]) -> tuple[Float[Array, "D"], Cache]:
        position = cache["position"]
        q_1HK, k_1GK, v_1GK = self.project(x[None], position[None])
        k_SGK = cache["keys"].at[position].set(k_1GK[0])
        v_SGK = cache["values"].at[position].set(v_1GK[0])
        visible_1S = jnp.arange(len(k_SGK))[None] <= position
        out_1D = self.attend(q_1HK, k_SGK, v_SGK, visible_1S)
        return out_1D[0], {"position": position + 1, "keys": k_SGK, "values": v_SGK}
