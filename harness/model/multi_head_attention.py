"""Multi-head attention, with a cache of keys and values, a window, rotary positions and segments.

Shapes: B batch, T positions, S positions in the cache, D model width, H heads, G heads of keys and values, K head
width, R rotated numbers of a head, L layers.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from harness.model.attention import cached_attention, causal_attention
from harness.model.linear import Projection, kernel_inits, split_over
from harness.model.norms import make_norm
from harness.model.paged_cache import PagedCache
from harness.model.rope import Rotate, rotate, scaled, turned, wavelengths
from harness.model.segments import Segments
from harness.model_config import ModelConfig

Attend = Callable[[Array, Array, Array, int, Array], Array]  # of q, k, v, the window and the segments (B, T)


class KeysAndValues(NamedTuple):
    """The cache of `Attention`, of all layers, or of one without the axis L."""

    k_LBGSK: Float[Array, "*L B G S K"]
    v_LBGSK: Float[Array, "*L B G S K"]

    def attend(
        self, q_BTHK: Array, k_BTGK: Array, v_BTGK: Array, position: Any, layer: Any, window: Any
    ) -> tuple[Array, "KeysAndValues"]:
        """The attention of rows that all start at one position, and the cache extended by their keys and values."""
        offset = (layer, 0, 0, position, 0)
        extended = KeysAndValues(
            jax.lax.dynamic_update_slice(self.k_LBGSK, k_BTGK.swapaxes(1, 2)[None], offset),
            jax.lax.dynamic_update_slice(self.v_LBGSK, v_BTGK.swapaxes(1, 2)[None], offset),
        )
        positions_T = position + jnp.arange(q_BTHK.shape[1])
        k_BGSK, v_BGSK = extended.k_LBGSK[layer], extended.v_LBGSK[layer]
        return cached_attention(q_BTHK, k_BGSK, v_BGSK, positions_T, window), extended


class Attention(nnx.Module):
    """Causal multi-head attention (Vaswani et al. 2017); `out` is the projection back into the residual stream.

    With `num_kv_heads`, each head of keys and values serves a group of adjacent heads (Ainslie et al. 2023).
    """

    def __init__(
        self, config: ModelConfig, rngs: nnx.Rngs, rotate: Rotate = rotate, attend_within: Attend = causal_attention
    ):
        D, H, G, K = config.d_model, config.num_heads, config.kv_heads, config.per_head
        inner, outer = kernel_inits(config)
        linear = functools.partial(Projection, dtype=jnp.dtype(config.dtype), rngs=rngs)
        into = functools.partial(linear, use_bias=config.qkv_bias, kernel_init=inner, **split_over(-2, -2))
        self.config, self.rotate, self.attend_within = config, rotate, attend_within
        self.grouped, self.group_size = bool(config.num_kv_heads), H // G
        if self.grouped:
            self.q = into(D, (H, K))
            self.kv = into(D, (2, G, K))
        else:
            self.qkv = into(D, (3, H, K))
        if config.qk_norm != "none":
            self.q_norm, self.k_norm = (
                make_norm(config, rngs, K if config.qk_norm == "head" else heads * K) for heads in (H, G)
            )
        self.out = linear((H, K), D, axis=(-2, -1), use_bias=config.out_bias, kernel_init=outer, **split_over(-3))

    def empty_cache(self, batch: int) -> KeysAndValues:
        """The part of one layer in a cache with room for `context` positions."""
        config = self.config
        shape = (batch, config.kv_heads, config.context, config.per_head)
        return KeysAndValues(jnp.zeros(shape, config.dtype), jnp.zeros(shape, config.dtype))

    @jax.named_scope("attention")
    def __call__(
        self,
        x_BTD: Float[Array, "B T D"],
        position: Int[Array, ""] | Int[Array, "B"] | int = 0,
        cache: KeysAndValues | PagedCache | None = None,
        layer=0,
        last=0,
        segments: Segments | None = None,
    ) -> tuple[Float[Array, "B T D"], KeysAndValues | PagedCache | None]:
        """Attends from positions `position`, `position + 1`, ..., or within segments.

        With a cache, also attends to the earlier positions of `layer`, and returns the cache extended by these. Rows of
        a paged cache have a position each.
        """
        if self.grouped:
            q_BTHK, (k_BTGK, v_BTGK) = self.q(x_BTD), jnp.moveaxis(self.kv(x_BTD), 2, 0)
        else:
            q_BTHK, k_BTGK, v_BTGK = jnp.moveaxis(self.qkv(x_BTD), 2, 0)
        if self.config.qk_norm != "none":
            q_BTHK, k_BTGK = self._normed(self.q_norm, q_BTHK), self._normed(self.k_norm, k_BTGK)
        if self.config.positions == "rope":
            q_BTHK, k_BTGK = (self._rotated_from(x, position, segments, layer) for x in (q_BTHK, k_BTGK))
        window: Any = self.config.window
        if cache is None:
            k_BTHK, v_BTHK = (jnp.repeat(x, self.group_size, axis=2) for x in (k_BTGK, v_BTGK))
            whole, in_window = (functools.partial(self._attend, segments, size) for size in (0, window))
            if self.config.full_every:  # the layer is a number in the program, which runs one of the two
                mixed_BTHK = jax.lax.cond(self.config.is_full(layer), whole, in_window, q_BTHK, k_BTHK, v_BTHK)
            else:
                mixed_BTHK = in_window(q_BTHK, k_BTHK, v_BTHK)
        else:
            if self.config.full_every:
                window = jnp.where(self.config.is_full(layer), self.config.context, window)
            mixed_BTHK, cache = cache.attend(q_BTHK, k_BTGK, v_BTGK, position, layer, window)
        return self.out(mixed_BTHK), cache

    def _normed(self, norm: Callable[[Array], Array], x_BTHK: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """The norm of each head, or of all heads as one row."""
        if self.config.qk_norm == "head":
            return norm(x_BTHK)
        return norm(x_BTHK.reshape(*x_BTHK.shape[:2], -1)).reshape(x_BTHK.shape)

    def _attend(
        self, segments: Segments | None, window: int, q_BTHK: Array, k_BTHK: Array, v_BTHK: Array
    ) -> Float[Array, "B T H K"]:
        if segments is None:
            return causal_attention(q_BTHK, k_BTHK, v_BTHK, window)
        return self.attend_within(q_BTHK, k_BTHK, v_BTHK, window, segments.ids_BT)

    def _rotated_from(
        self, x_BTHK: Float[Array, "B T H K"], position: Any, segments: Segments | None, layer: Any
    ) -> Float[Array, "B T H K"]:
        if segments is not None:
            return self._rotated(x_BTHK, segments.positions_BT, layer)
        positions = jnp.add.outer(position, jnp.arange(x_BTHK.shape[1])).reshape(-1)
        # Rows that have a position each become one long row, whose positions may be any.
        rows = x_BTHK.reshape(-1, len(positions), *x_BTHK.shape[2:])
        return self._rotated(rows, positions, layer).reshape(x_BTHK.shape)

    def _rotated(
        self, x_BTHK: Float[Array, "B T H K"], positions: Int[Array, "*B T"], layer: Any
    ) -> Float[Array, "B T H K"]:
        """Rotary positions of the first `rotated` numbers of each head. Another `rotate` has one base and no
        scaling."""
        R, base, (kind, numbers) = self.config.rotated, self.config.rope_base, self.config.scaling
        first_BTHR, rest = x_BTHK[..., :R], x_BTHK[..., R:]
        if kind == "none" and not self.config.window_rope_base:
            first_BTHR = self.rotate(first_BTHR, positions, base)
        else:
            wavelengths_P = scaled(wavelengths(R, base), kind, numbers, base)
            if self.config.window_rope_base:
                in_window_P = wavelengths(R, self.config.window_rope_base)
                wavelengths_P = jnp.where(self.config.is_full(layer), wavelengths_P, in_window_P)
            first_BTHR = turned(first_BTHR, positions, wavelengths_P)
            if kind == "yarn":
                first_BTHR = first_BTHR * numbers[-1]
        return jnp.concatenate([first_BTHR, rest], axis=-1) if rest.shape[-1] else first_BTHR
