"""The GPT: one compiled block, scanned over the layers.

Parameters carry the metadata that `training/sharding.py` reads: the axis that a mesh may split.

Shapes: B batch, T positions, S positions in the cache, D model width, H heads, G heads of keys and values, K head width, F
feed-forward width, V vocabulary, L layers.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from harness.model.attention import cached_attention, causal_attention
from harness.model.latent_attention import LatentAttention
from harness.model.linear import Projection, kernel_inits, split_over
from harness.model.rope import Rotate, rotate, scaled, turned, wavelengths
from harness.model.segments import Segments
from harness.model.state_space import StateSpace
from harness.model_config import ModelConfig

# Layers that are written out in the program. The time to compile grows with their number.
MOST_UNROLLED = {"cpu": 8, "gpu": 12}

Key = PRNGKeyArray | None
ModuleFactory = Callable[[ModelConfig, nnx.Rngs], nnx.Module]
# Those that model_config.py allows
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "gelu_exact": functools.partial(jax.nn.gelu, approximate=False),
    "swiglu": jax.nn.silu,
}
Attend = Callable[[Array, Array, Array, int, Array], Array]  # of q, k, v, the window and the segments (B, T)


# What the layers keep of earlier positions: keys and values, latent vectors, or states. Its leaves have an axis over the layers.
Cache = PyTree[Array]


class KeysAndValues(NamedTuple):
    """The cache of `Attention`, of all layers, or of one without the axis L."""

    k_LBGSK: Float[Array, "*L B G S K"]
    v_LBGSK: Float[Array, "*L B G S K"]


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
        position: Int[Array, ""] | int = 0,
        cache: KeysAndValues | None = None,
        layer=0,
        last=0,
        segments: Segments | None = None,
    ) -> tuple[Float[Array, "B T D"], KeysAndValues | None]:
        """Attends from positions `position`, `position + 1`, ..., or within segments.

        With a cache, also attends to the earlier positions of `layer`, and returns the cache extended by these.
        """
        T = x_BTD.shape[1]
        if self.grouped:
            q_BTHK, (k_BTGK, v_BTGK) = self.q(x_BTD), jnp.moveaxis(self.kv(x_BTD), 2, 0)
        else:
            q_BTHK, k_BTGK, v_BTGK = jnp.moveaxis(self.qkv(x_BTD), 2, 0)
        if self.config.qk_norm != "none":
            q_BTHK, k_BTGK = self._normed(self.q_norm, q_BTHK), self._normed(self.k_norm, k_BTGK)
        positions_T = position + jnp.arange(T)
        if self.config.positions == "rope":
            positions = positions_T if segments is None else segments.positions_BT
            q_BTHK, k_BTGK = (self._rotated(x, positions) for x in (q_BTHK, k_BTGK))
        if cache is None:
            k_BTHK, v_BTHK = (jnp.repeat(x, self.group_size, axis=2) for x in (k_BTGK, v_BTGK))
            if segments is None:
                mixed_BTHK = causal_attention(q_BTHK, k_BTHK, v_BTHK, self.config.window)
            else:
                mixed_BTHK = self.attend_within(q_BTHK, k_BTHK, v_BTHK, self.config.window, segments.ids_BT)
        else:
            offset = (layer, 0, 0, position, 0)
            cache = KeysAndValues(
                jax.lax.dynamic_update_slice(cache.k_LBGSK, k_BTGK.swapaxes(1, 2)[None], offset),
                jax.lax.dynamic_update_slice(cache.v_LBGSK, v_BTGK.swapaxes(1, 2)[None], offset),
            )
            window = self.config.window
            mixed_BTHK = cached_attention(q_BTHK, cache.k_LBGSK[layer], cache.v_LBGSK[layer], positions_T, window)
        return self.out(mixed_BTHK), cache

    def _normed(self, norm: Callable[[Array], Array], x_BTHK: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """The norm of each head, or of all heads as one row."""
        if self.config.qk_norm == "head":
            return norm(x_BTHK)
        return norm(x_BTHK.reshape(*x_BTHK.shape[:2], -1)).reshape(x_BTHK.shape)

    def _rotated(self, x_BTHK: Float[Array, "B T H K"], positions: Int[Array, "*B T"]) -> Float[Array, "B T H K"]:
        """Rotary positions of the first `rotated` numbers of each head. Another `rotate` has no scaled wavelengths."""
        R, base, (kind, numbers) = self.config.rotated, self.config.rope_base, self.config.scaling
        first_BTHR, rest = x_BTHK[..., :R], x_BTHK[..., R:]
        if kind == "none":
            first_BTHR = self.rotate(first_BTHR, positions, base)
        else:
            first_BTHR = turned(first_BTHR, positions, scaled(wavelengths(R, base), kind, numbers))
        return jnp.concatenate([first_BTHR, rest], axis=-1) if rest.shape[-1] else first_BTHR


# What mixes the positions, by the names of model_config.py. `last` is the index of the last position that is not padding. Padding
# may leave a trace in a cache only where it is overwritten before it is read.
MIXERS: dict[str, Callable[..., nnx.Module]] = {
    "attention": Attention, "latent_attention": LatentAttention, "state_space": StateSpace,
}  # fmt: skip


def make_norm(config: ModelConfig, rngs: nnx.Rngs, width: int = 0) -> nnx.LayerNorm | nnx.RMSNorm:
    """LayerNorm, or RMSNorm (Zhang and Sennrich 2019), which neither centers nor has a bias; of rows of `d_model`, or `width`."""
    D, epsilon, dtype = width or config.d_model, config.norm_epsilon, jnp.dtype(config.dtype)
    if config.norm_kind == "rmsnorm":
        return nnx.RMSNorm(D, epsilon=epsilon, dtype=dtype, rngs=rngs)
    return nnx.LayerNorm(D, epsilon=epsilon, use_bias=config.bias, dtype=dtype, rngs=rngs)


class Block(nnx.Module):
    """A mixer of positions, such as attention, and a feed-forward network, each added to the residual stream.

    The norm comes before each (`norm=pre`, as in GPT-2), after each sum (`post`), after each before its sum (`branch`), or
    nowhere (`none`). With `activation=swiglu`, the hidden layer is `silu(gate(x)) * ff1(x)` (Shazeer 2020). With
    `parallel_residual`, both read the input of the block (Wang and Komatsuzaki 2021).
    """

    def __init__(
        self,
        config: ModelConfig,
        rngs: nnx.Rngs,
        make_mixer: ModuleFactory | None = None,
        make_norm: ModuleFactory = make_norm,
        make_feed_forward: ModuleFactory | None = None,  # of rows (N, D) -> (N, D)
    ):
        self.norm, self.parallel = config.norm, config.parallel_residual
        if config.norm != "none":
            self.ln1 = make_norm(config, rngs)
            self.ln2 = make_norm(config, rngs)
        self.attn = (make_mixer or MIXERS[config.mixer])(config, rngs)
        self.dropout = nnx.Dropout(config.dropout)
        self.feed_forward_override: Any = make_feed_forward(config, rngs) if make_feed_forward else None
        if self.feed_forward_override is not None:
            return
        D, F = config.d_model, config.d_ff
        inner, outer = kernel_inits(config)
        linear = functools.partial(nnx.Linear, use_bias=config.bias, dtype=jnp.dtype(config.dtype), rngs=rngs)
        self.ff1 = linear(D, F, kernel_init=inner, **split_over(-1, -1))
        self.ff2 = linear(F, D, kernel_init=outer, **split_over(-2))
        self.gate = linear(D, F, kernel_init=inner, **split_over(-1, -1)) if config.activation == "swiglu" else None
        self.activation = ACTIVATIONS[config.activation]

    @jax.named_scope("feed-forward")  # with the norms and the sums of the block
    def __call__(
        self,
        x_BTD: Float[Array, "B T D"],
        key: Key = None,
        position=0,
        cache: Cache | None = None,
        layer=0,
        last=0,
        segments: Segments | None = None,
    ) -> tuple[Float[Array, "B T D"], Cache | None]:
        """The output of the block, and the extended cache. A `key` enables dropout."""
        keys = (None, None) if key is None else jax.random.split(key)
        in_BTD = self.ln1(x_BTD) if self.norm == "pre" else x_BTD
        within = () if segments is None else (segments,)  # only attention knows them
        mixed_BTD, cache = self.attn(in_BTD, position, cache, layer, last, *within)
        start_BTD = x_BTD
        x_BTD = x_BTD + self._drop(self.ln1(mixed_BTD) if self.norm == "branch" else mixed_BTD, keys[0])
        x_BTD = self.ln1(x_BTD) if self.norm == "post" else x_BTD
        in_BTD = start_BTD if self.parallel else x_BTD
        in_BTD = self.ln2(in_BTD) if self.norm == "pre" else in_BTD
        in_ND = in_BTD.reshape(-1, in_BTD.shape[-1])  # matrices, for the reason given at `Projection`
        out_ND = self._feed_forward(in_ND) if self.feed_forward_override is None else self.feed_forward_override(in_ND)
        out_ND = self.ln2(out_ND) if self.norm == "branch" else out_ND
        x_BTD = x_BTD + self._drop(out_ND.reshape(x_BTD.shape), keys[1])
        return (self.ln2(x_BTD) if self.norm == "post" else x_BTD), cache

    def _feed_forward(self, in_ND: Float[Array, "N D"]) -> Float[Array, "N D"]:
        hidden_NF = self.ff1(in_ND)
        hidden_NF = self.activation(hidden_NF) if self.gate is None else self.activation(self.gate(in_ND)) * hidden_NF
        return self.ff2(hidden_NF)

    def _drop(self, x: Array, key: Key) -> Array:
        return x if key is None else self.dropout(x, deterministic=False, rngs=key)


def stacked_blocks(config: ModelConfig, rngs: nnx.Rngs, make_block: ModuleFactory) -> nnx.Module:
    """All blocks as one module whose parameters have a leading axis of size `num_layers`."""
    build = nnx.vmap(functools.partial(make_block, config), in_axes=(0,), out_axes=0)
    return mark_stacked(nnx.split_rngs(splits=config.num_layers)(build)(rngs))


def mark_stacked(module: nnx.Module) -> nnx.Module:
    """The module, whose parameters now say that their leading axis runs over the layers."""
    for _, parameter in nnx.to_flat_state(nnx.state(module, nnx.Param)):
        parameter.set_metadata(stacked=True)
    return module


@functools.partial(jax.tree_util.register_dataclass, data_fields=["weight_VD", "bias_V"], meta_fields=["vocab_size"])
@dataclass(frozen=True)
class Head:
    """The output projection: `logits = x @ weight.T + bias`. Rows from `vocab_size` on are padding."""

    weight_VD: Any  # (V, D), or their shardings
    bias_V: Any  # (V,), or None
    vocab_size: int


def project(x: Float[Array, "*N D"], head: Head) -> Float[Array, "*N V"]:
    """The logits of inputs of the head, in float32, without the padding."""
    logits = jnp.einsum("...d,vd->...v", x, head.weight_VD.astype(x.dtype), preferred_element_type=jnp.float32)
    if head.bias_V is not None:
        logits = logits + jnp.broadcast_to(head.bias_V, logits.shape)
    return logits[..., : head.vocab_size]


class GPT(nnx.Module):
    """Embeddings, `num_layers` blocks with stacked parameters, a final norm (`norm=pre` and `branch` only), and a head."""

    def __init__(
        self,
        config: ModelConfig,
        rngs: nnx.Rngs,
        make_block: ModuleFactory = Block,
        make_embed: ModuleFactory | None = None,  # of ids (B, T) -> (B, T, D), including positions
        make_norm: ModuleFactory = make_norm,
    ):
        V, D = config.vocab_rows, config.d_model
        # As in GPT-2; otherwise as in flax.nnx.Embed, with vectors of length about one.
        table = nnx.initializers.normal(0.02 if config.init == "gpt2" else D**-0.5)
        self.config = config
        self.embed_override: Any = make_embed(config, rngs) if make_embed else None
        overridden = self.embed_override is not None
        self.embed: Any = None if overridden else nnx.Param(table(rngs.params(), (V, D)), model_axis=-2)
        learned = config.positions == "learned" and not overridden
        self.pos_embed = nnx.Param(table(rngs.params(), (config.context, D))) if learned else None
        self.blocks = stacked_blocks(config, rngs, make_block) if config.num_layers else None
        self.ln_f = make_norm(config, rngs) if config.norm in ("pre", "branch") else None
        head_init = nnx.initializers.xavier_uniform() if config.init == "xavier" else table
        self.head = None if config.tied_head else nnx.Param(head_init(rngs.params(), (V, D)), model_axis=-2)
        self.head_bias = nnx.Param(jnp.zeros(V), model_axis=-1) if config.head_bias else None

    def hidden(
        self, ids_BT: Int[Array, "B T"], key: Key = None, segments: Segments | None = None
    ) -> Float[Array, "B T D"]:
        """The input of the head at each position. A `key` enables dropout. Padding may be any valid id.

        With segments, a row holds several stories, each of which gets what it would get in a row of its own.
        """
        x_BTD, _ = self._run(ids_BT, key, 0, None, segments=segments)
        return x_BTD

    def output(self) -> Head:
        """The weights of the head, tied or untied."""
        table = self.embed if self.embed_override is None else self.embed_override.table()
        weight = table if self.head is None else self.head
        return Head(weight[...], None if self.head_bias is None else self.head_bias[...], self.config.vocab_size)

    def __call__(self, ids: Int[Array, "*B T"]) -> Float[Array, "*B T V"]:
        """Float32 logits of one story `(T,)` or of a batch `(B, T)`."""
        x = self.hidden(ids.reshape(-1, ids.shape[-1]))
        return self.logits(x.reshape(*ids.shape, -1))

    def logits(self, x: Float[Array, "*N D"]) -> Float[Array, "*N V"]:
        """Float32 logits of inputs of the head."""
        return project(x, self.output())

    def empty_cache(self, batch: int) -> Cache:
        """A cache of all layers for a batch of so many stories, before their first position."""
        if self.blocks is None:
            return ()
        graph, parameters_L = nnx.split(self.blocks)

        def of_layer(parameters: Any) -> Cache:
            block: Any = nnx.merge(graph, parameters)
            return block.attn.empty_cache(batch)

        return jax.vmap(of_layer)(parameters_L)

    def step(
        self, ids_BT: Int[Array, "B T"], position: Int[Array, ""], last: Int[Array, ""], cache: Cache
    ) -> tuple[Float[Array, "B V"], Cache]:
        """Runs `ids_BT`, which start at `position`, and are padding after index `last`.

        Returns the logits at index `last` and the cache extended by the positions up to there.
        """
        x_BTD, extended = self._run(ids_BT, None, position, cache, last)
        x_BD = jax.lax.dynamic_index_in_dim(x_BTD, last, axis=1, keepdims=False)
        return self.logits(x_BD), extended

    def _run(
        self, ids_BT: Array, key: Key, position, cache: Cache | None, last=0, segments: Segments | None = None
    ) -> tuple[Array, Cache | None]:
        config, T = self.config, ids_BT.shape[1]
        x_BTD = self.embed[ids_BT] if self.embed_override is None else self.embed_override(ids_BT)
        if self.pos_embed is not None and segments is not None:
            x_BTD = x_BTD + self.pos_embed[segments.positions_BT]
        elif self.pos_embed is not None:
            x_BTD = x_BTD + jax.lax.dynamic_slice_in_dim(self.pos_embed[...], position, T)[None]
        x_BTD = x_BTD.astype(config.dtype)
        if self.blocks is not None:
            graph, parameters_L = nnx.split(self.blocks)
            if key is not None and config.dropout:
                embed_key, key = jax.random.split(key)
                x_BTD = nnx.Dropout(config.dropout)(x_BTD, deterministic=False, rngs=embed_key)
                keys_L = jax.random.split(key, config.num_layers)
            else:
                keys_L = None

            def layer(carry, inputs):
                x_BTD, cache = carry
                index, parameters, key = inputs
                return nnx.merge(graph, parameters)(x_BTD, key, position, cache, index, last, segments), None

            # A loop copies what it keeps for the backward pass.
            backend = jax.default_backend()
            few = cache is None and config.num_layers <= MOST_UNROLLED.get(backend, 0) and not config.remat
            if config.remat:
                layer = jax.checkpoint(layer, prevent_cse=False)  # inside a scan, XLA cannot undo the recomputation
            elif backend != "cpu":  # where memory is slow, compared with arithmetic
                layer = jax.checkpoint(layer, prevent_cse=False, policy=_keeps)
            (x_BTD, cache), _ = jax.lax.scan(
                layer, (x_BTD, cache), (jnp.arange(config.num_layers), parameters_L, keys_L), unroll=few
            )
        return (x_BTD if self.ln_f is None else self.ln_f(x_BTD)), cache


def _keeps(primitive: Any, *inputs: Any, **parameters: Any) -> bool:
    """Whether the backward pass keeps the results of an operation: products with weights, and cuDNN's attention.

    What comes between, such as norms and activations, is computed again, which takes less time than reading it from memory.
    """
    if primitive.name.startswith("dot_product_attention_fwd"):
        return True
    return bool(jax.checkpoint_policies.dots_with_no_batch_dims_saveable(primitive, *inputs, **parameters))
