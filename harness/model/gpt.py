"""The GPT: one compiled block, scanned over the layers.

Parameters carry the metadata that `training/sharding.py` reads: the axis that a mesh may split.

Shapes: B batch, T positions, S positions in the cache, D model width, H heads, G heads of keys and values, K head
width, F feed-forward width, V vocabulary, L layers.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from harness.model.activations import gelu
from harness.model.latent_attention import LatentAttention
from harness.model.linear import kernel_inits, split_over
from harness.model.multi_head_attention import Attention
from harness.model.norms import by_row, make_norm
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
    "gelu": gelu,
    "gelu_exact": functools.partial(jax.nn.gelu, approximate=False),
    "swiglu": jax.nn.silu,
    "geglu": gelu,
}

# What the layers keep of earlier positions: keys and values, latent vectors, or states. Its leaves have an axis over
# the layers, or over groups of them.
Cache = PyTree[Array]

# What mixes the positions, by the names of model_config.py. `last` is the index of the last position that is not
# padding. Padding may leave a trace in a cache only where it is overwritten before it is read.
MIXERS: dict[str, Callable[..., nnx.Module]] = {
    "attention": Attention, "latent_attention": LatentAttention, "state_space": StateSpace,
}  # fmt: skip


class Block(nnx.Module):
    """A mixer of positions, such as attention, and a feed-forward network, each added to the residual stream.

    The norm comes before each (`norm=pre`, as in GPT-2), after each sum (`post`), after each before its sum (`branch`),
    both before each and before its sum (`both`), or nowhere (`none`). With `activation=swiglu`, the hidden layer is
    `silu(gate(x)) * ff1(x)`, with `geglu` it is `gelu(gate(x)) * ff1(x)` (Shazeer 2020). With `parallel_residual`, both
    read the input of the block (Wang and Komatsuzaki 2021).
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
        if config.norm == "both":
            self.ln1_out, self.ln2_out = make_norm(config, rngs), make_norm(config, rngs)
        self.attn: Any = (make_mixer or MIXERS[config.mixer])(config, rngs)
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
        before = self.norm in ("pre", "both")
        after = {"branch": ("ln1", "ln2"), "both": ("ln1_out", "ln2_out")}.get(self.norm)
        within = () if segments is None else (segments,)  # only attention knows them
        in_BTD = by_row(self.ln1, x_BTD) if before else x_BTD
        mixed_BTD, cache = self.attn(in_BTD, position, cache, layer, last, *within)
        start_BTD = x_BTD
        x_BTD = x_BTD + self._drop(by_row(getattr(self, after[0]), mixed_BTD) if after else mixed_BTD, keys[0])
        x_BTD = by_row(self.ln1, x_BTD) if self.norm == "post" else x_BTD
        in_BTD = start_BTD if self.parallel else x_BTD
        in_BTD = by_row(self.ln2, in_BTD) if before else in_BTD
        in_ND = in_BTD.reshape(-1, in_BTD.shape[-1])  # matrices, for the reason given at `Projection`
        out_ND = self._feed_forward(in_ND) if self.feed_forward_override is None else self.feed_forward_override(in_ND)
        out_ND = getattr(self, after[1])(out_ND) if after else out_ND
        x_BTD = x_BTD + self._drop(out_ND.reshape(x_BTD.shape), keys[1])
        return (by_row(self.ln2, x_BTD) if self.norm == "post" else x_BTD), cache

    def _feed_forward(self, in_ND: Float[Array, "N D"]) -> Float[Array, "N D"]:
        hidden_NF = self.ff1(in_ND)
        hidden_NF = self.activation(hidden_NF) if self.gate is None else self.activation(self.gate(in_ND)) * hidden_NF
        return self.ff2(hidden_NF)

    def _drop(self, x: Array, key: Key) -> Array:
        return x if key is None else self.dropout(x, deterministic=False, rngs=key)


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


def stacked_blocks(config: ModelConfig, rngs: nnx.Rngs, make_block: ModuleFactory) -> nnx.Module:
    """All blocks, or groups of them, as one module whose parameters have a leading axis of size `repeats`."""
    make = functools.partial(Group, make_block) if config.attention_every else make_block
    build = nnx.vmap(functools.partial(make, config), in_axes=(0,), out_axes=0)
    return mark_stacked(nnx.split_rngs(splits=config.repeats)(build)(rngs))


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
    """Embeddings, `num_layers` blocks with stacked parameters, a final norm (unless `norm` is `post` or `none`), and a
    head."""

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
        self.ln_f = make_norm(config, rngs) if config.norm in ("pre", "branch", "both") else None
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

    def _run(
        self, ids_BT: Array, key: Key, position, cache: Cache | None, last=0, segments: Segments | None = None
    ) -> tuple[Array, Cache | None]:
        config, T = self.config, ids_BT.shape[1]
        x_BTD = self.embed[ids_BT] if self.embed_override is None else self.embed_override(ids_BT)
        if config.scaled_embedding:
            x_BTD = x_BTD * config.d_model**0.5
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
