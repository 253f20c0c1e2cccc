"""Problem 66, reference: multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, without norms and short
queries)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int
from p37_rope import rope

Cache = dict[str, Array]
Queries = tuple[Float[Array, "T H K"], Float[Array, "T H R"]]
Memory = tuple[Float[Array, "S C"], Float[Array, "S R"]]


class LatentAttention(nnx.Module):
    """Causal self-attention whose keys and values are made of one short vector for each position."""

    def __init__(
        self, d_model: int, num_heads: int, d_latent: int, d_rope: int, rope_base: float, rngs: nnx.Rngs
    ) -> None:
        H, K, C, R = num_heads, d_model // num_heads, d_latent, d_rope
        self.H, self.K, self.C, self.R, self.rope_base = H, K, C, R, rope_base
        self.q_proj = nnx.Linear(d_model, H * (K + R), use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_model, C + R, use_bias=False, rngs=rngs)
        self.k_up = nnx.Linear(C, H * K, use_bias=False, rngs=rngs)
        self.v_up = nnx.Linear(C, H * K, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(H * K, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"], mask: Bool[Array, "T T"] | None = None) -> Float[Array, "T D"]:
        T = len(x)
        positions_T = jnp.arange(T)
        mask_TS = jnp.tril(jnp.ones((T, T), bool)) if mask is None else mask
        return self.attend(self.queries(x, positions_T), self.memory(x, positions_T), mask_TS)

    def queries(self, x: Float[Array, "T D"], positions: Int[Array, "T"]) -> Queries:
        """The queries for the latent part, and the rotated ones."""
        q_THQ = self.q_proj(x).reshape(-1, self.H, self.K + self.R)
        q_THK, q_THR = q_THQ[..., : self.K], q_THQ[..., self.K :]
        return q_THK, rope(q_THR, positions, self.rope_base)

    def memory(self, x: Float[Array, "T D"], positions: Int[Array, "T"]) -> Memory:
        """What the cache holds of each position: the latent vector, and one rotated key for all heads."""
        down_TF = self.down_proj(x)
        latent_TC, k_TR = down_TF[:, : self.C], down_TF[:, self.C :]
        return latent_TC, rope(k_TR[:, None], positions, self.rope_base)[:, 0]

    def attend(self, queries: Queries, memory: Memory, mask_TS: Bool[Array, "T S"]) -> Float[Array, "T D"]:
        """Attention to latent vectors: the products with `k_up` and `v_up` are taken once a query, not once a
        position."""
        (q_THK, q_THR), (latent_SC, k_SR) = queries, memory
        k_up_CHK = self.k_up.kernel[...].reshape(self.C, self.H, self.K)
        v_up_CHK = self.v_up.kernel[...].reshape(self.C, self.H, self.K)
        q_THC = jnp.einsum("thk,chk->thc", q_THK, k_up_CHK)
        scores_HTS = jnp.einsum("thc,sc->hts", q_THC, latent_SC) + jnp.einsum("thr,sr->hts", q_THR, k_SR)
        scores_HTS = scores_HTS / jnp.sqrt(self.K + self.R)
        weights_HTS = jax.nn.softmax(jnp.where(mask_TS, scores_HTS, -1e9), axis=-1)
        mixed_THC = jnp.einsum("hts,sc->thc", weights_HTS, latent_SC)
        heads_THK = jnp.einsum("thc,chk->thk", mixed_THC, v_up_CHK)
        return self.out_proj(heads_THK.reshape(-1, self.H * self.K))

    def empty_cache(self, context: int) -> Cache:
        return {
            "position": jnp.zeros((), jnp.int32),
            "latent": jnp.zeros((context, self.C)),
            "keys": jnp.zeros((context, self.R)),
        }

    def decode_step(self, cache: Cache, x: Float[Array, "D"]) -> tuple[Float[Array, "D"], Cache]:
        position = cache["position"]
        latent_1C, k_1R = self.memory(x[None], position[None])
        latent_SC = cache["latent"].at[position].set(latent_1C[0])
        k_SR = cache["keys"].at[position].set(k_1R[0])
        visible_1S = jnp.arange(len(k_SR))[None] <= position
        out_1D = self.attend(self.queries(x[None], position[None]), (latent_SC, k_SR), visible_1S)
        return out_1D[0], {"position": position + 1, "latent": latent_SC, "keys": k_SR}
