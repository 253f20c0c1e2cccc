"""Latent attention (DeepSeek-AI 2024, DeepSeek-V2, without its norms): keys and values of all heads from one cached
vector.

Shapes: B batch, T positions, S positions in the cache, D model width, H heads, K head width, C width of the latent
vectors, R rotated numbers of a query, Q = K + R, M = C + R.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from harness.model.attention import cached_attention, causal_attention
from harness.model.layers import Projection, kernel_inits, split_over
from harness.model.rope import Rotate, rotate
from harness.model_config import ModelConfig

Memory = Float[Array, "L B S M"]  # of each position and layer: the latent vector, then the rotated key


class LatentAttention(nnx.Module):
    """Causal attention whose cache holds one latent vector and one rotated key for each position, which all heads
    share.

    Training makes the keys and values of all heads from the latent vectors. With a cache, their kernels are absorbed
    into the queries and the output instead, so that a step reads M numbers of each position.
    """

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, rotate: Rotate = rotate):
        D, H, K, C, R = config.d_model, config.num_heads, config.per_head, config.d_latent, config.d_rope
        inner, outer = kernel_inits(config)
        # Keys and values come from two kernels. Without DeepSeek's norm between them, the second keeps the size of the
        # first.
        up = inner if config.init == "xavier" else nnx.initializers.normal(C**-0.5)
        linear = functools.partial(Projection, dtype=jnp.dtype(config.dtype), use_bias=False, rngs=rngs)
        self.config, self.rotate = config, rotate
        self.q = linear(D, (H, K + R), kernel_init=inner, **split_over(-2))
        self.down = linear(D, (C + R,), kernel_init=inner)
        self.kv = linear(C, (2, H, K), kernel_init=up, **split_over(-2))
        self.out = linear((H, K), D, axis=(-2, -1), kernel_init=outer, **split_over(-3))

    def empty_cache(self, batch: int) -> Float[Array, "B S M"]:
        """The part of one layer in a cache with room for `context` positions."""
        config = self.config
        return jnp.zeros((batch, config.context, config.d_latent + config.d_rope), config.dtype)

    def __call__(
        self,
        x_BTD: Float[Array, "B T D"],
        position: Int[Array, ""] | int = 0,
        cache: Memory | None = None,
        layer=0,
        last=0,
    ) -> tuple[Float[Array, "B T D"], Memory | None]:
        """Attends from positions `position`, `position + 1`, ...

        With a cache, also attends to the earlier positions of `layer`, and returns the cache extended by these.
        """
        C, K, R, window = self.config.d_latent, self.config.per_head, self.config.d_rope, self.config.window
        positions_T = position + jnp.arange(x_BTD.shape[1])
        q_BTHQ, down_BTM = self.q(x_BTD), self.down(x_BTD)
        q_BTHK, q_BTHR = q_BTHQ[..., :K], self._rotated(q_BTHQ[..., K:], positions_T)
        latent_BTC, k_BT1R = down_BTM[..., :C], self._rotated(down_BTM[:, :, None, C:], positions_T)
        if cache is None:
            k_BTHK, v_BTHK = jnp.moveaxis(self.kv(latent_BTC), 2, 0)
            k_BTHR = jnp.broadcast_to(k_BT1R, q_BTHR.shape)
            q_BTHQ, k_BTHQ = (jnp.concatenate(parts, -1) for parts in ((q_BTHK, q_BTHR), (k_BTHK, k_BTHR)))
            return self.out(causal_attention(q_BTHQ, k_BTHQ, v_BTHK, window)), None
        memory_1BTM = jnp.concatenate([latent_BTC, k_BT1R[:, :, 0]], -1)[None]
        cache = jax.lax.dynamic_update_slice(cache, memory_1BTM, (layer, 0, position, 0))
        # q · (latent k_up) = (q k_upᵀ) · latent: all heads share the cache as their keys, and its latent part as their
        # values.
        k_up_CHK, v_up_CHK = jnp.moveaxis(self.kv.kernel[...].astype(x_BTD.dtype), 1, 0)
        q_BTHM = jnp.concatenate([jnp.einsum("bthk,chk->bthc", q_BTHK, k_up_CHK), q_BTHR], -1)
        k_B1SM = cache[layer][:, None]
        mixed_BTHC = cached_attention(q_BTHM, k_B1SM, k_B1SM[..., :C], positions_T, window, scale=(K + R) ** -0.5)
        return self.out(jnp.einsum("bthc,chk->bthk", mixed_BTHC, v_up_CHK)), cache

    def _rotated(self, x_BTHR: Float[Array, "B T H R"], positions_T: Int[Array, "T"]) -> Float[Array, "B T H R"]:
        return self.rotate(x_BTHR, positions_T, self.config.rope_base)
