"""The decoder of other people's models: what `gpt.py` leaves out, and what only models of `transformers` have.

More places of the norm, norms of queries and keys, other rotary positions, layers of two kinds, and other mixers of
positions than attention. `make_gpt` chooses between the two decoders.

Shapes: as in `gpt.py`; P pairs of a head, R rotated numbers of a head.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from harness.model.attention import causal_attention
from harness.model.experts import Experts
from harness.model.gated_delta import GatedDelta
from harness.model.gpt import GPT, Attention, Block, Cache, Key, ModuleFactory
from harness.model.latent_attention import LatentAttention
from harness.model.layers import by_row
from harness.model.layers import make_norm as common_norm
from harness.model.multi_token import MultiToken
from harness.model.rope import turned, wavelengths
from harness.model.segments import Segments
from harness.model.state_space import StateSpace
from harness.model_config import ModelConfig


def make_gpt(config: ModelConfig, rngs: nnx.Rngs, **parts: Any) -> GPT:
    """The decoder with these settings: that of the course, or the general one if they need it.

    `parts` are those of `GPT`, such as `make_block`.
    """
    return (GeneralGPT if config.is_general else GPT)(config, rngs, **parts)


def make_block(config: ModelConfig, rngs: nnx.Rngs, **parts: Any) -> Block:
    """A block of such a decoder. `parts` are those of `Block`, such as `make_norm`."""
    return (GeneralBlock if config.is_general else Block)(config, rngs, **parts)


class OffsetRMSNorm(nnx.Module):
    """RMSNorm in float32 whose scale is stored as its difference from 1, so that decay draws it to 1 (Gemma)."""

    def __init__(self, width: int, epsilon: float, dtype: Any):
        self.scale = nnx.Param(jnp.zeros(width))
        self.epsilon, self.dtype = epsilon, dtype

    def __call__(self, x: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        x = x.astype(jnp.float32)
        normed = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return (normed * (1 + jnp.broadcast_to(self.scale[...], x.shape))).astype(self.dtype)


def make_norm(config: ModelConfig, rngs: nnx.Rngs, width: int = 0) -> nnx.LayerNorm | nnx.RMSNorm | OffsetRMSNorm:
    """The norm of rows of `d_model` numbers, or `width`."""
    if config.norm_kind == "rmsnorm_1":
        return OffsetRMSNorm(width or config.d_model, config.norm_epsilon, jnp.dtype(config.dtype))
    return common_norm(config, rngs, width)


def scaled(wavelengths_P: Float[Array, "P"], kind: str, numbers: tuple[float, ...], base: float) -> Float[Array, "P"]:
    """Wavelengths for contexts that are longer than those of pretraining, by `ModelConfig.scaling`.

    `linear` multiplies all of them (Chen et al. 2023). `llama3` leaves those that fit into the old context more than
    HIGH times, multiplies those that fit less than LOW times, and goes over from one to the other in between (Llama
    3.1, 2024). `yarn` does so evenly from the pair that fits FAST times to the one that fits SLOW times (Peng et al.
    2023); queries and keys are then multiplied by its last number. `yarn_exact` does not round these pairs.
    """
    if kind == "none":
        return wavelengths_P
    factor = numbers[0]
    if kind == "linear":
        return wavelengths_P * factor
    if kind == "llama3":
        low, high, context = numbers[1:]
        turns_P = context / (2 * math.pi * wavelengths_P)
        kept_P = jnp.clip((turns_P - low) / (high - low), 0, 1)  # of the old frequency
    else:
        pairs, context = len(wavelengths_P), numbers[3]
        fast, slow = (pairs * math.log(context / (turns * 2 * math.pi)) / math.log(base) for turns in numbers[1:3])
        fast, slow = (math.floor(fast), math.ceil(slow)) if kind == "yarn" else (fast, slow)
        first, last = max(fast, 0), min(slow, 2 * pairs - 1)
        kept_P = 1 - jnp.clip((jnp.arange(pairs) - first) / (last - first or 0.001), 0, 1)
    return wavelengths_P / (kept_P + (1 - kept_P) / factor)


class GeneralAttention(Attention):
    """Attention with norms of queries and keys (`qk_norm`), positions that rotate a part of a head or have longer
    wavelengths, and layers of two kinds: with `full_every`, every so many attend to all positions in spite of the
    window; with sinks, and with a gate of its output (Qiu et al. 2025)."""

    config: ModelConfig

    def _make_more(self, config: ModelConfig, rngs: nnx.Rngs) -> None:
        self.sinks = nnx.Param(jnp.zeros(config.num_heads), model_axis=-1) if config.sinks else None
        if config.qk_norm != "none":
            of_head, heads = config.qk_norm == "head", (config.num_heads, config.kv_heads)
            self.q_norm, self.k_norm = (
                make_norm(config, rngs, config.per_head if of_head else number * config.per_head) for number in heads
            )

    def __call__(
        self, x_BTD: Float[Array, "B T D"], position=0, cache=None, layer=0, last=0, segments: Segments | None = None
    ) -> tuple[Float[Array, "B T D"], Any]:
        """The output, and the extended cache, as of `Attention`."""
        q_BTHK, k_BTGK, v_BTGK = self._projected(x_BTD)
        gate_BTHK = None
        if self.config.attention_gate:
            q_BTHK, gate_BTHK = jnp.split(q_BTHK, 2, axis=-1)
        if self.config.qk_norm != "none":
            q_BTHK, k_BTGK = self._of_heads(self.q_norm, q_BTHK), self._of_heads(self.k_norm, k_BTGK)
        mixed_BTHK, cache = self._mixed(q_BTHK, k_BTGK, v_BTGK, position, cache, layer, segments)
        return self.out(mixed_BTHK if gate_BTHK is None else mixed_BTHK * jax.nn.sigmoid(gate_BTHK)), cache

    def _of_heads(self, norm: Callable[[Array], Array], x_BTHK: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """The norm of each head, or of all heads as one row."""
        if self.config.qk_norm == "head":
            return norm(x_BTHK)
        return norm(x_BTHK.reshape(*x_BTHK.shape[:2], -1)).reshape(x_BTHK.shape)

    def _rotated(
        self, x_BTHK: Float[Array, "B T H K"], positions: Int[Array, "*B T"], layer: Any
    ) -> Float[Array, "B T H K"]:
        """Rotary positions of the first `rotated` numbers of each head. Another `rotate` has one base and no
        scaling."""
        config, R = self.config, self.config.rotated
        first_BTHR, rest = x_BTHK[..., :R], x_BTHK[..., R:]
        if config.rope_scaling == "none" and not config.window_rope_base:
            first_BTHR = super()._rotated(first_BTHR, positions, layer)
        else:
            kind, numbers = config.scaling
            wavelengths_P = scaled(wavelengths(R, config.rope_base), kind, numbers, config.rope_base)
            if config.window_rope_base:
                in_window_P = wavelengths(R, config.window_rope_base)
                wavelengths_P = jnp.where(config.is_full(layer), wavelengths_P, in_window_P)
            first_BTHR = turned(first_BTHR, positions, wavelengths_P)
            if kind.startswith("yarn"):
                first_BTHR = first_BTHR * numbers[-1]
        return jnp.concatenate([first_BTHR, rest], axis=-1) if rest.shape[-1] else first_BTHR

    def _attend(
        self, window: int, layer: Any, segments: Segments | None, q_BTHK: Array, k_BTHK: Array, v_BTHK: Array
    ) -> Float[Array, "B T H K"]:
        attend = super()._attend if self.sinks is None else self._attend_with_sinks
        if not self.config.full_every:
            return attend(window, layer, segments, q_BTHK, k_BTHK, v_BTHK)
        # The layer is a number in the program, which runs one of the two.
        whole, in_window = (functools.partial(attend, size, layer, segments) for size in (0, window))
        return jax.lax.cond(self.config.is_full(layer), whole, in_window, q_BTHK, k_BTHK, v_BTHK)

    def _attend_with_sinks(
        self, window: int, layer: Any, segments: Segments | None, q_BTHK: Array, k_BTHK: Array, v_BTHK: Array
    ) -> Float[Array, "B T H K"]:
        assert self.sinks is not None
        ids_BT = None if segments is None else segments.ids_BT
        return causal_attention(q_BTHK, k_BTHK, v_BTHK, window, ids_BT, self.sinks[...])

    def _of_cached(self, layer: Any) -> tuple[Any, ...]:
        config = self.config
        window = jnp.where(config.is_full(layer), config.context, config.window) if config.full_every else config.window
        return (window,) if self.sinks is None else (window, self.sinks[...])


# What mixes the positions, by the names of model_config.py. Called as `Attention` is; `last` is the index of the last
# position that is not padding. Padding may leave a trace in a cache only where it is overwritten before it is read.
MIXERS: dict[str, Callable[..., nnx.Module]] = {
    "attention": GeneralAttention, "latent_attention": LatentAttention, "state_space": StateSpace,
    "gated_delta": GatedDelta,
}  # fmt: skip


class GeneralBlock(Block):
    """A block with any mixer of positions, with experts, and with more places of the norm: after attention and the
    feed-forward network, before their sums (`branch`), or there and before each (`both`).

    With `parallel_residual`, both read the input of the block (Wang and Komatsuzaki 2021).
    """

    def __init__(
        self,
        config: ModelConfig,
        rngs: nnx.Rngs,
        make_mixer: ModuleFactory | None = None,
        make_norm: ModuleFactory = make_norm,
        make_feed_forward: ModuleFactory | None = None,
    ):
        own = Experts if config.experts else None
        super().__init__(config, rngs, make_mixer or MIXERS[config.mixer], make_norm, make_feed_forward or own)
        self.parallel = config.parallel_residual
        self.after = {"branch": ("ln1", "ln2"), "both": ("ln1_out", "ln2_out")}.get(config.norm)
        if config.norm == "both":
            self.norm = "pre"

    def _make_norms(self, make_norm: ModuleFactory, config: ModelConfig, rngs: nnx.Rngs) -> None:
        super()._make_norms(make_norm, config, rngs)
        if config.norm == "both":
            self.ln1_out, self.ln2_out = make_norm(config, rngs), make_norm(config, rngs)

    def __call__(
        self, x_BTD: Float[Array, "B T D"], key: Key = None, *where: Any
    ) -> tuple[Float[Array, "B T D"], Cache | None]:
        """The output of the block, and the extended cache. A `key` enables dropout."""
        if not self.parallel:
            return super().__call__(x_BTD, key, *where)
        with jax.named_scope("feed-forward"):
            keys = (None, None) if key is None else jax.random.split(key)
            mixed_BTD, cache = self._mixed(x_BTD, *where)
            sum_BTD = x_BTD + self._drop(mixed_BTD, keys[0])
            return sum_BTD + self._drop(self._fed(x_BTD), keys[1]), cache

    def _mixed(self, x_BTD: Float[Array, "B T D"], *where: Any) -> tuple[Float[Array, "B T D"], Cache | None]:
        mixed_BTD, cache = super()._mixed(x_BTD, *where)
        return (by_row(getattr(self, self.after[0]), mixed_BTD) if self.after else mixed_BTD), cache

    def _feed_forward(self, in_ND: Float[Array, "N D"]) -> Float[Array, "N D"]:
        out_ND = super()._feed_forward(in_ND)
        return getattr(self, self.after[1])(out_ND) if self.after else out_ND


class Group(nnx.Module):
    """`attention_every` blocks, of which the last has attention and the others have the mixer of the config.

    Called like a block. Its cache is a tuple with that of each block.
    """

    def __init__(self, make_block: ModuleFactory, config: ModelConfig, rngs: nnx.Rngs):
        kinds = [config] * (config.attention_every - 1) + [config.of_attention()]
        self.layers: Any = nnx.List([make_block(kind, rngs) for kind in kinds])

    def empty_cache(self, batch: int) -> Cache:
        """The parts of these layers in the cache."""
        return tuple(block.empty_cache(batch) for block in self.layers)

    def __call__(
        self,
        x_BTD: Float[Array, "B T D"],
        key: Key,
        position,
        cache: Cache | None,
        group,
        last,
        segments: Segments | None,
    ) -> tuple[Float[Array, "B T D"], Cache | None]:
        """The output of the last block, and the extended cache, where this is group `group`."""
        caches = cache or (None,) * len(self.layers)
        keys = (None,) * len(self.layers) if key is None else jax.random.split(key, len(self.layers))
        extended = []
        for block, block_key, before in zip(self.layers, keys, caches, strict=True):
            x_BTD, after = block(x_BTD, block_key, position, before, group, last, segments)
            extended.append(after)
        return x_BTD, None if cache is None else tuple(extended)


class GeneralGPT(GPT):
    """A GPT of general blocks, or of groups of them with `attention_every`; with `mtp`, and a module beside it."""

    config: ModelConfig

    def __init__(
        self,
        config: ModelConfig,
        rngs: nnx.Rngs,
        make_block: ModuleFactory = GeneralBlock,
        make_embed: ModuleFactory | None = None,
        make_norm: ModuleFactory = make_norm,
    ):
        grouped = functools.partial(Group, make_block) if config.attention_every else make_block
        super().__init__(config, rngs, grouped, make_embed, make_norm)
        self.mtp = MultiToken(config, rngs, make_block, make_norm) if config.mtp else None

    def ahead(
        self,
        hidden_BTD: Float[Array, "B T D"],
        next_BT: Int[Array, "B T"],
        key: Key = None,
        segments: Segments | None = None,
    ) -> Float[Array, "B T D"]:
        """The input of the head for the token after `next_BT`, which are the tokens after those of `hidden_BTD`."""
        assert self.mtp is not None
        return self.mtp(hidden_BTD, self._embedded(next_BT).astype(self.config.dtype), key, segments)

    def _embedded(self, ids_BT: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        x_BTD = super()._embedded(ids_BT)
        return x_BTD * self.config.d_model**0.5 if self.config.scaled_embedding else x_BTD
