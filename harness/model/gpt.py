"""The GPT: one compiled block, scanned over the layers.

Shapes: B batch, T positions, S positions in the cache, D model width, H heads, K head width, F feed-forward width, V
vocabulary, L layers.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from harness.config import ModelConfig
from harness.model.attention import causal_attention

Key = PRNGKeyArray | None
ModuleFactory = Callable[[ModelConfig, nnx.Rngs], nnx.Module]


class Cache(NamedTuple):
    """Keys and values of all earlier positions, for all layers."""

    k_LBSHK: Float[Array, "L B S H K"]
    v_LBSHK: Float[Array, "L B S H K"]

    @classmethod
    def empty(cls, config: ModelConfig, batch: int) -> "Cache":
        """A cache with room for `context` positions."""
        K = config.head_width
        shape = (config.num_layers, batch, config.context, config.num_heads, K)
        return cls(jnp.zeros(shape, config.dtype), jnp.zeros(shape, config.dtype))


def rotate(x_BTHK: Float[Array, "B T H K"], positions_T: Int[Array, "T"]) -> Float[Array, "B T H K"]:
    """Rotary positions (Su et al. 2021): rotates pairs (i, i + K/2) by an angle proportional to the position."""
    half = x_BTHK.shape[-1] // 2
    angles_TK = positions_T[:, None].astype(jnp.float32) / 10_000 ** (jnp.arange(half, dtype=jnp.float32) / half)[None]
    cos, sin = (f(angles_TK)[None, :, None, :].astype(x_BTHK.dtype) for f in (jnp.cos, jnp.sin))
    a, b = jnp.split(x_BTHK, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


class Attention(nnx.Module):
    """Causal multi-head attention (Vaswani et al. 2017); `out` is the projection back into the residual stream."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        H, K = config.num_heads, config.head_width
        inner, outer = _kernel_inits(config)
        dtype = jnp.dtype(config.dtype)
        self.rope = config.positions == "rope"
        self.qkv = nnx.LinearGeneral(config.d_model, (3, H, K), kernel_init=inner, dtype=dtype, rngs=rngs)
        self.out = nnx.LinearGeneral((H, K), config.d_model, axis=(-2, -1), kernel_init=outer, dtype=dtype, rngs=rngs)

    @jax.named_scope("attention")
    def __call__(
        self, x_BTD: Float[Array, "B T D"], position: Int[Array, ""] | int = 0, cache: Cache | None = None, layer=0
    ) -> tuple[Float[Array, "B T D"], Cache | None]:
        """Attends from positions `position`, `position + 1`, ...

        With a cache, also attends to the earlier positions of `layer`, and returns the cache extended by these.
        """
        T = x_BTD.shape[1]
        q_BTHK, k_BTHK, v_BTHK = jnp.moveaxis(self.qkv(x_BTD), 2, 0)
        positions_T = position + jnp.arange(T)
        if self.rope:
            q_BTHK, k_BTHK = rotate(q_BTHK, positions_T), rotate(k_BTHK, positions_T)
        if cache is None:
            mixed_BTHK = causal_attention(q_BTHK, k_BTHK, v_BTHK)
        else:
            offset = (layer, 0, position, 0, 0)
            cache = Cache(
                jax.lax.dynamic_update_slice(cache.k_LBSHK, k_BTHK[None], offset),
                jax.lax.dynamic_update_slice(cache.v_LBSHK, v_BTHK[None], offset),
            )
            mask_TS = jnp.arange(cache.k_LBSHK.shape[2])[None, :] <= positions_T[:, None]
            mixed_BTHK = jax.nn.dot_product_attention(
                q_BTHK, cache.k_LBSHK[layer], cache.v_LBSHK[layer], mask=mask_TS[None, None]
            )
        return self.out(mixed_BTHK), cache


class Block(nnx.Module):
    """Attention and a feed-forward network, each added to the residual stream.

    LayerNorm comes before each (`norm=pre`, as in GPT-2), after each sum (`post`), or nowhere (`none`).
    """

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, make_attention: ModuleFactory = Attention):
        inner, outer = _kernel_inits(config)
        dtype = jnp.dtype(config.dtype)
        self.norm = config.norm
        if config.norm != "none":
            self.ln1 = nnx.LayerNorm(config.d_model, epsilon=config.norm_epsilon, dtype=dtype, rngs=rngs)
            self.ln2 = nnx.LayerNorm(config.d_model, epsilon=config.norm_epsilon, dtype=dtype, rngs=rngs)
        self.attn = make_attention(config, rngs)
        self.ff1 = nnx.Linear(config.d_model, config.d_ff, kernel_init=inner, dtype=dtype, rngs=rngs)
        self.ff2 = nnx.Linear(config.d_ff, config.d_model, kernel_init=outer, dtype=dtype, rngs=rngs)
        self.activation = {"relu": jax.nn.relu, "gelu": jax.nn.gelu}[config.activation]
        self.dropout = nnx.Dropout(config.dropout)

    @jax.named_scope("feed-forward")  # with the norms and the sums of the block
    def __call__(
        self, x_BTD: Float[Array, "B T D"], key: Key = None, position=0, cache: Cache | None = None, layer=0
    ) -> tuple[Float[Array, "B T D"], Cache | None]:
        """The output of the block, and the extended cache. A `key` enables dropout."""
        keys = (None, None) if key is None else jax.random.split(key)
        mixed_BTD, cache = self.attn(self.ln1(x_BTD) if self.norm == "pre" else x_BTD, position, cache, layer)
        x_BTD = x_BTD + self._drop(mixed_BTD, keys[0])
        x_BTD = self.ln1(x_BTD) if self.norm == "post" else x_BTD
        hidden_BTF = self.activation(self.ff1(self.ln2(x_BTD) if self.norm == "pre" else x_BTD))
        x_BTD = x_BTD + self._drop(self.ff2(hidden_BTF), keys[1])
        return (self.ln2(x_BTD) if self.norm == "post" else x_BTD), cache

    def _drop(self, x: Array, key: Key) -> Array:
        return x if key is None else self.dropout(x, deterministic=False, rngs=key)


def stacked_blocks(config: ModelConfig, rngs: nnx.Rngs, make_block: ModuleFactory) -> nnx.Module:
    """All blocks as one module whose parameters have a leading axis of size `num_layers`."""
    build = nnx.vmap(functools.partial(make_block, config), in_axes=(0,), out_axes=0)
    return nnx.split_rngs(splits=config.num_layers)(build)(rngs)


class Head(NamedTuple):
    """The output projection: `logits = x @ weight.T + bias`."""

    weight_VD: Float[Array, "V D"]
    bias_V: Float[Array, "V"] | None


class GPT(nnx.Module):
    """Embeddings, `num_layers` blocks with stacked parameters, a final norm (pre-LN only), and a head."""

    def __init__(
        self,
        config: ModelConfig,
        rngs: nnx.Rngs,
        make_block: ModuleFactory = Block,
        make_embed: ModuleFactory | None = None,  # of ids (B, T) -> (B, T, D), including positions
    ):
        V, D = config.vocab_size, config.d_model
        # As in GPT-2; otherwise as in flax.nnx.Embed, with vectors of length about one.
        table = nnx.initializers.normal(0.02 if config.init == "gpt2" else D**-0.5)
        self.config = config
        self.embed_override: Any = make_embed(config, rngs) if make_embed else None
        self.embed: Any = None if self.embed_override is not None else nnx.Param(table(rngs.params(), (V, D)))
        learned = config.positions == "learned" and self.embed_override is None
        self.pos_embed = nnx.Param(table(rngs.params(), (config.context, D))) if learned else None
        self.blocks = stacked_blocks(config, rngs, make_block) if config.num_layers else None
        norm = functools.partial(nnx.LayerNorm, epsilon=config.norm_epsilon, dtype=jnp.dtype(config.dtype))
        self.ln_f = norm(D, rngs=rngs) if config.norm == "pre" else None
        head_init = nnx.initializers.xavier_uniform() if config.init == "xavier" else table
        self.head = None if config.tied_head else nnx.Param(head_init(rngs.params(), (V, D)))
        self.head_bias = nnx.Param(jnp.zeros(V)) if config.head_bias else None

    def hidden(self, ids_BT: Int[Array, "B T"], key: Key = None) -> Float[Array, "B T D"]:
        """The input of the head at each position. A `key` enables dropout. Padding may be any valid id."""
        x_BTD, _ = self._run(ids_BT, key, 0, None)
        return x_BTD

    def output(self) -> Head:
        """The weights of the head, tied or untied."""
        table = self.embed if self.embed_override is None else self.embed_override.table()
        weight = table if self.head is None else self.head
        return Head(weight[...], None if self.head_bias is None else self.head_bias[...])

    def __call__(self, ids: Int[Array, "*B T"]) -> Float[Array, "*B T V"]:
        """Float32 logits of one story `(T,)` or of a batch `(B, T)`."""
        x = self.hidden(ids.reshape(-1, ids.shape[-1]))
        return self.logits(x.reshape(*ids.shape, -1))

    def logits(self, x: Float[Array, "*N D"]) -> Float[Array, "*N V"]:
        """Float32 logits of inputs of the head."""
        weight_VD, bias_V = self.output()
        logits = jnp.einsum("...d,vd->...v", x, weight_VD.astype(x.dtype), preferred_element_type=jnp.float32)
        return logits if bias_V is None else logits + jnp.broadcast_to(bias_V, logits.shape)

    def step(
        self, ids_BT: Int[Array, "B T"], position: Int[Array, ""], last: Int[Array, ""], cache: Cache
    ) -> tuple[Float[Array, "B V"], Cache]:
        """Runs `ids_BT`, which start at `position`. Returns the logits at index `last` and the extended cache."""
        x_BTD, extended = self._run(ids_BT, None, position, cache)
        assert extended is not None
        x_BD = jax.lax.dynamic_index_in_dim(x_BTD, last, axis=1, keepdims=False)
        return self.logits(x_BD), extended

    def _run(self, ids_BT: Array, key: Key, position, cache: Cache | None) -> tuple[Array, Cache | None]:
        config, T = self.config, ids_BT.shape[1]
        x_BTD = self.embed[ids_BT] if self.embed_override is None else self.embed_override(ids_BT)
        if self.pos_embed is not None:
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
                return nnx.merge(graph, parameters)(x_BTD, key, position, cache, index), None

            if config.remat:
                layer = jax.checkpoint(layer, prevent_cse=False)  # inside a scan, XLA cannot undo the recomputation
            (x_BTD, cache), _ = jax.lax.scan(
                layer, (x_BTD, cache), (jnp.arange(config.num_layers), parameters_L, keys_L)
            )
        return (x_BTD if self.ln_f is None else self.ln_f(x_BTD)), cache


def _kernel_inits(config: ModelConfig) -> tuple[nnx.Initializer, nnx.Initializer]:
    """Initializers of kernels inside a block, and of kernels that write to the residual stream.

    GPT-2 scales the latter by one over the square root of their number.
    """
    if config.init == "xavier":
        return nnx.initializers.xavier_uniform(), nnx.initializers.xavier_uniform()
    return nnx.initializers.normal(0.02), nnx.initializers.normal(0.02 / (2 * max(config.num_layers, 1)) ** 0.5)
