"""The decoder of the course: GPT-2 and, with other settings, the modern one of problem 40 with RMSNorm, SwiGLU, rotary
positions and heads that share keys and values.

One compiled block is scanned over the layers, whose parameters are stacked. Parameters carry the metadata that
`training/sharding.py` reads: the axis that a mesh may split. `general.py` extends these classes for the models of other
people.

Shapes: B batch, T positions, S positions in the cache, D model width, H heads, G heads of keys and values, K head
width, F feed-forward width, V vocabulary, L layers.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from harness.model.attention import cached_attention, causal_attention
from harness.model.layers import Head, Projection, by_row, gelu, kernel_inits, make_norm, project, split_over
from harness.model.paged_cache import PagedCache
from harness.model.rope import Rotate, rotate
from harness.model.segments import Segments
from harness.model_config import GPTConfig

# Layers that are written out in the program. The time to compile grows with their number.
MOST_UNROLLED = {"cpu": 8, "gpu": 12}

Key = PRNGKeyArray | None
ModuleFactory = Callable[[Any, nnx.Rngs], nnx.Module]  # of the settings of the model
Attend = Callable[[Array, Array, Array, int, Array], Array]  # of q, k, v, the window and the segments (B, T)
# What the layers keep of earlier positions, such as keys and values. Its leaves have an axis over the layers.
Cache = PyTree[Array]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": gelu,
    "gelu_exact": functools.partial(jax.nn.gelu, approximate=False),
    "swiglu": jax.nn.silu,
    "geglu": gelu,
}


class KeysAndValues(NamedTuple):
    """The cache of `Attention`, of all layers, or of one without the axis L."""

    k_LBGSK: Float[Array, "*L B G S K"]
    v_LBGSK: Float[Array, "*L B G S K"]

    def attend(
        self, q_BTHK: Array, k_BTGK: Array, v_BTGK: Array, position: Any, layer: Any, window: Any, sinks_H: Any = None
    ) -> tuple[Array, "KeysAndValues"]:
        """The attention of rows that all start at one position, and the cache extended by their keys and values."""
        offset = (layer, 0, 0, position, 0)
        extended = KeysAndValues(
            jax.lax.dynamic_update_slice(self.k_LBGSK, k_BTGK.swapaxes(1, 2)[None], offset),
            jax.lax.dynamic_update_slice(self.v_LBGSK, v_BTGK.swapaxes(1, 2)[None], offset),
        )
        positions_T = position + jnp.arange(q_BTHK.shape[1])
        k_BGSK, v_BGSK = extended.k_LBGSK[layer], extended.v_LBGSK[layer]
        return cached_attention(q_BTHK, k_BGSK, v_BGSK, positions_T, window, sinks_H), extended


class Attention(nnx.Module):
    """Causal multi-head attention (Vaswani et al. 2017); `out` is the projection back into the residual stream.

    With `num_kv_heads`, each head of keys and values serves a group of adjacent heads (Ainslie et al. 2023).
    """

    def __init__(
        self, config: GPTConfig, rngs: nnx.Rngs, rotate: Rotate = rotate, attend_within: Attend = causal_attention
    ):
        D, H, G, K = config.d_model, config.num_heads, config.kv_heads, config.per_head
        inner, outer = kernel_inits(config)
        linear = functools.partial(Projection, dtype=jnp.dtype(config.dtype), rngs=rngs)
        into = functools.partial(linear, use_bias=config.qkv_bias, kernel_init=inner, **split_over(-2, -2))
        self.config, self.rotate, self.attend_within = config, rotate, attend_within
        self.grouped = bool(config.num_kv_heads)
        if self.grouped:
            self.q = into(D, (H, config.query_width))
            self.kv = into(D, (2, G, K))
        else:
            self.qkv = into(D, (3, H, K))
        self._make_more(config, rngs)
        self.out = linear((H, K), D, axis=(-2, -1), use_bias=config.out_bias, kernel_init=outer, **split_over(-3))

    def _make_more(self, config: Any, rngs: nnx.Rngs) -> None:
        """Adds what other models have besides, such as norms of queries and keys."""

    def empty_cache(self, batch: int) -> KeysAndValues:
        """The part of one layer in a cache with room for `context` positions."""
        config = self.config
        shape = (batch, config.kv_heads, config.context, config.per_head)
        return KeysAndValues(jnp.zeros(shape, config.dtype), jnp.zeros(shape, config.dtype))

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
        mixed_BTHK, cache = self._mixed(*self._projected(x_BTD), position, cache, layer, segments)
        return self.out(mixed_BTHK), cache

    def _mixed(
        self,
        q_BTHK: Array,
        k_BTGK: Array,
        v_BTGK: Array,
        position: Any,
        cache: KeysAndValues | PagedCache | None,
        layer: Any,
        segments: Segments | None,
    ) -> tuple[Float[Array, "B T H K"], KeysAndValues | PagedCache | None]:
        """The values that each head mixes, and the extended cache."""
        if self.config.positions == "rope":
            q_BTHK, k_BTGK = (self._rotated_from(x, position, segments, layer) for x in (q_BTHK, k_BTGK))
        if cache is None:
            k_BTHK, v_BTHK = (jnp.repeat(x, self.config.num_heads // x.shape[2], axis=2) for x in (k_BTGK, v_BTGK))
            return self._attend(self.config.window, layer, segments, q_BTHK, k_BTHK, v_BTHK), None
        return cache.attend(q_BTHK, k_BTGK, v_BTGK, position, layer, *self._of_cached(layer))

    def _projected(self, x_BTD: Float[Array, "B T D"]) -> tuple[Array, Array, Array]:
        """The queries `(B, T, H, K)`, and the keys and values `(B, T, G, K)`."""
        if self.grouped:
            return self.q(x_BTD), *jnp.moveaxis(self.kv(x_BTD), 2, 0)
        q_BTHK, k_BTHK, v_BTHK = jnp.moveaxis(self.qkv(x_BTD), 2, 0)
        return q_BTHK, k_BTHK, v_BTHK

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
        """Rotary positions, which are the same in all layers."""
        return self.rotate(x_BTHK, positions, self.config.rope_base)

    def _attend(
        self, window: int, layer: Any, segments: Segments | None, q_BTHK: Array, k_BTHK: Array, v_BTHK: Array
    ) -> Float[Array, "B T H K"]:
        """The attention of all positions to each other, which is the same in all layers."""
        if segments is None:
            return causal_attention(q_BTHK, k_BTHK, v_BTHK, window)
        return self.attend_within(q_BTHK, k_BTHK, v_BTHK, window, segments.ids_BT)

    def _of_cached(self, layer: Any) -> tuple[Any, ...]:
        """What the attention to a cache takes besides: its window."""
        return (self.config.window,)


class Block(nnx.Module):
    """Attention and a feed-forward network, each added to the residual stream.

    The norm comes before each (`norm=pre`, as in GPT-2), after each sum (`post`), or nowhere (`none`). With
    `activation=swiglu`, the hidden layer is `silu(gate(x)) * ff1(x)`, with `geglu` it is `gelu(gate(x)) * ff1(x)`
    (Shazeer 2020).
    """

    def __init__(
        self,
        config: GPTConfig,
        rngs: nnx.Rngs,
        make_mixer: ModuleFactory = Attention,
        make_norm: ModuleFactory = make_norm,
        make_feed_forward: ModuleFactory | None = None,  # of rows (N, D) -> (N, D)
    ):
        self.norm = config.norm
        self._make_norms(make_norm, config, rngs)
        self.attn: Any = make_mixer(config, rngs)
        self.dropout = nnx.Dropout(config.dropout)
        self.feed_forward_override: Any = make_feed_forward(config, rngs) if make_feed_forward else None
        if self.feed_forward_override is not None:
            return
        D, F = config.d_model, config.d_ff
        inner, outer = kernel_inits(config)
        linear = functools.partial(nnx.Linear, use_bias=config.bias, dtype=jnp.dtype(config.dtype), rngs=rngs)
        self.ff1 = linear(D, F, kernel_init=inner, **split_over(-1, -1))
        self.ff2 = linear(F, D, kernel_init=outer, **split_over(-2))
        self.gate = linear(D, F, kernel_init=inner, **split_over(-1, -1)) if config.is_gated else None
        self.activation = ACTIVATIONS[config.activation]

    def _make_norms(self, make_norm: ModuleFactory, config: Any, rngs: nnx.Rngs) -> None:
        if config.norm != "none":
            self.ln1, self.ln2 = make_norm(config, rngs), make_norm(config, rngs)

    def empty_cache(self, batch: int) -> Cache:
        """The part of one layer in the cache."""
        return self.attn.empty_cache(batch)

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
        where = (position, cache, layer, last)
        mixed_BTD, cache = self._mixed(x_BTD, *where, *(() if segments is None else (segments,)))
        x_BTD = self._normed("ln1", "post", x_BTD + self._drop(mixed_BTD, keys[0]))
        x_BTD = self._normed("ln2", "post", x_BTD + self._drop(self._fed(x_BTD), keys[1]))
        return x_BTD, cache

    def _mixed(self, x_BTD: Float[Array, "B T D"], *where: Any) -> tuple[Float[Array, "B T D"], Cache | None]:
        """What attention adds, and the extended cache."""
        in_BTD = self._normed("ln1", "pre", x_BTD)
        with jax.named_scope("attention"):
            return self.attn(in_BTD, *where)

    def _fed(self, x_BTD: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """What the feed-forward network adds."""
        in_BTD = self._normed("ln2", "pre", x_BTD)
        in_ND = in_BTD.reshape(-1, in_BTD.shape[-1])  # matrices, for the reason given at `Projection`
        return self._feed_forward(in_ND).reshape(x_BTD.shape)

    def _feed_forward(self, in_ND: Float[Array, "N D"]) -> Float[Array, "N D"]:
        if self.feed_forward_override is not None:
            return self.feed_forward_override(in_ND)
        hidden_NF = self.ff1(in_ND)
        hidden_NF = self.activation(hidden_NF) if self.gate is None else self.activation(self.gate(in_ND)) * hidden_NF
        return self.ff2(hidden_NF)

    def _normed(self, name: str, where: str, x_BTD: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """The norm of that name, if this is where the norm is applied."""
        return by_row(getattr(self, name), x_BTD) if self.norm == where else x_BTD

    def _drop(self, x: Array, key: Key) -> Array:
        return x if key is None else self.dropout(x, deterministic=False, rngs=key)


def stacked_blocks(config: GPTConfig, rngs: nnx.Rngs, make_block: ModuleFactory) -> nnx.Module:
    """All blocks as one module, whose parameters have a leading axis of size `repeats`."""
    build = nnx.vmap(functools.partial(make_block, config), in_axes=(0,), out_axes=0)
    return mark_stacked(nnx.split_rngs(splits=config.repeats)(build)(rngs))


def mark_stacked(module: nnx.Module) -> nnx.Module:
    """The module, whose parameters now say that their leading axis runs over the layers."""
    for _, parameter in nnx.to_flat_state(nnx.state(module, nnx.Param)):
        parameter.set_metadata(stacked=True)
    return module


class GPT(nnx.Module):
    """Embeddings, `num_layers` blocks with stacked parameters, a final norm (unless `norm` is `post` or `none`), and a
    head.

    Raises ValueError for settings that only `GeneralGPT` has.
    """

    def __init__(
        self,
        config: GPTConfig,
        rngs: nnx.Rngs,
        make_block: ModuleFactory = Block,
        make_embed: ModuleFactory | None = None,  # of ids (B, T) -> (B, T, D), including positions
        make_norm: ModuleFactory = make_norm,
    ):
        if config.is_general and type(self) is GPT:
            raise ValueError("GPT lacks some of these settings; make_gpt in general.py chooses the class that has them")
        V, D = config.vocab_rows, config.d_model
        # As in GPT-2; otherwise as in flax.nnx.Embed, with vectors of length about one.
        table = nnx.initializers.normal(0.02 if config.init == "gpt2" else D**-0.5)
        self.config = config
        self.embed_override: Any = make_embed(config, rngs) if make_embed else None
        overridden = self.embed_override is not None
        self.embed: Any = None if overridden else nnx.Param(table(rngs.params(), (V, D)), model_axis=-2)
        learned = config.positions == "learned" and not overridden
        self.pos_embed = nnx.Param(table(rngs.params(), (config.context, D))) if learned else None
        self.blocks: Any = stacked_blocks(config, rngs, make_block) if config.num_layers else None
        self.ln_f = None if config.norm in ("post", "none") else make_norm(config, rngs)
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
            return block.empty_cache(batch)

        return jax.vmap(of_layer)(parameters_L)

    def step(
        self, ids_BT: Int[Array, "B T"], position: Int[Array, ""] | Int[Array, "B"], last: Int[Array, ""], cache: Cache
    ) -> tuple[Float[Array, "B V"], Cache]:
        """Runs `ids_BT`, which start at `position`, and are padding after index `last`. With a paged cache, each row
        has its own.

        Returns the logits at index `last` and the cache extended by the positions up to there.
        """
        x_BTD, extended = self._run(ids_BT, None, position, cache, last)
        x_BD = jax.lax.dynamic_index_in_dim(x_BTD, last, axis=1, keepdims=False)
        return self.logits(x_BD), extended

    def _embedded(self, ids_BT: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """The vectors of the tokens."""
        return self.embed[ids_BT] if self.embed_override is None else self.embed_override(ids_BT)

    def _run(
        self, ids_BT: Array, key: Key, position, cache: Cache | None, last=0, segments: Segments | None = None
    ) -> tuple[Array, Cache | None]:
        config, T = self.config, ids_BT.shape[1]
        x_BTD = self._embedded(ids_BT)
        if self.pos_embed is not None and segments is not None:
            x_BTD = x_BTD + self.pos_embed[segments.positions_BT]
        elif self.pos_embed is not None and jnp.ndim(position):
            x_BTD = x_BTD + self.pos_embed[jnp.add.outer(position, jnp.arange(T))]
        elif self.pos_embed is not None:
            x_BTD = x_BTD + jax.lax.dynamic_slice_in_dim(self.pos_embed[...], position, T)[None]
        x_BTD = x_BTD.astype(config.dtype)
        if self.blocks is not None:
            graph, parameters_L = nnx.split(self.blocks)
            if key is not None and config.dropout:
                embed_key, key = jax.random.split(key)
                x_BTD = nnx.Dropout(config.dropout)(x_BTD, deterministic=False, rngs=embed_key)
                keys_L = jax.random.split(key, config.repeats)
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
            elif backend != "cpu" and not few:  # where memory is slow, compared with arithmetic
                layer = jax.checkpoint(layer, prevent_cse=False, policy=_keeps)
            (x_BTD, cache), _ = jax.lax.scan(
                layer, (x_BTD, cache), (jnp.arange(config.repeats), parameters_L, keys_L), unroll=few
            )
        return (x_BTD if self.ln_f is None else by_row(self.ln_f, x_BTD)), cache


def _keeps(primitive: Any, *inputs: Any, **parameters: Any) -> bool:
    """Whether the backward pass keeps the results of an operation: products with weights, and cuDNN's attention.

    What comes between, such as norms and activations, is computed again, which takes less time than reading it from
    memory.
    """
    if primitive.name.startswith("dot_product_attention_fwd"):
        return True
    return bool(jax.checkpoint_policies.dots_with_no_batch_dims_saveable(primitive, *inputs, **parameters))
