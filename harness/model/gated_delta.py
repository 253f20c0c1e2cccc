"""Gated DeltaNet (Yang, Kautz and Hatamizadeh 2024), as Qwen3-Next has it: positions mixed by a matrix that a rule
corrects.

Shapes: B batch, T positions, D model width, G heads of keys, H heads of values, K and V their widths, C all numbers
that the short convolution reads (C = 2 G K + H V), W its width, L layers.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from harness.model.layers import Projection, kernel_inits, split_over
from harness.model_config import ModelConfig

CHUNK = 64  # positions that are computed at once, a power of two
SLOWEST, FASTEST = 1e-3, 1e-1  # initial steps of the heads: how much of a state decays in a position, about
# (q, k, v, beta, log_alpha, state) of N heads -> their outputs (N, T, V) and last states (N, K, V)
DeltaRule = Callable[..., tuple[Array, Array]]


class DeltaState(NamedTuple):
    """The cache of all layers, or of one without the axis L."""

    inputs_LBWC: Float[Array, "*L B W-1 C"]  # of the convolution, at the last positions
    states_LBHKV: Float[Array, "*L B H K V"]


def delta_rule(
    q_TK: Float[Array, "T K"],
    k_TK: Float[Array, "T K"],
    v_TV: Float[Array, "T V"],
    beta_T: Float[Array, "T"],
    log_alpha_T: Float[Array, "T"],
    state_KV: Float[Array, "K V"],
    chunk: int,
) -> tuple[Float[Array, "T V"], Float[Array, "K V"]]:
    """`S ← α S`, then `S ← S + β k (v - kᵀ S)`, then `o = qᵀ S` at each position, and the last S; with k of length 1,
    and q of length 1 / √K.

    Positions of a chunk, whose length is a power of two, are solved for together: what one of them writes depends on
    what those before it wrote, by a triangular system.
    """
    T, K = q_TK.shape
    C = min(chunk, 1 << (T - 1).bit_length())
    q_TK, k_TK = (x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-6) for x in (q_TK, k_TK))

    def chunks(x: Array) -> Array:
        """Chunks of C positions. Zeros at the end neither decay nor write."""
        return jnp.pad(x, ((0, -T % C), *((0, 0),) * (x.ndim - 1))).reshape(-1, C, *x.shape[1:])

    earlier_CC = jnp.arange(C)[:, None] >= jnp.arange(C)[None, :]

    def run(state_KV: Array, inputs: tuple[Array, ...]) -> tuple[Array, Array]:
        q_CK, k_CK, v_CV, beta_C, log_C = inputs
        total_C = jnp.cumsum(log_C)  # the logarithm of the decay from the start of the chunk
        decay_CC = jnp.exp(jnp.where(earlier_CC, total_C[:, None] - total_C[None, :], -jnp.inf))
        decayed_C1 = jnp.exp(total_C)[:, None]
        system_CC = beta_C[:, None] * decay_CC * (k_CK @ k_CK.T)
        written_CV = inverse(system_CC) @ (beta_C[:, None] * (v_CV - decayed_C1 * (k_CK @ state_KV)))
        out_CV = decayed_C1 * (q_CK @ state_KV) + (decay_CC * (q_CK @ k_CK.T)) @ written_CV
        left_C1 = jnp.exp(total_C[-1] - total_C)[:, None]
        return jnp.exp(total_C[-1]) * state_KV + (left_C1 * k_CK).T @ written_CV, out_CV

    state_KV, out = jax.lax.scan(run, state_KV, tuple(map(chunks, (q_TK * K**-0.5, k_TK, v_TV, beta_T, log_alpha_T))))
    return out.reshape(-1, v_TV.shape[1])[:T], state_KV


rule_of_heads: DeltaRule = jax.vmap(functools.partial(delta_rule, chunk=CHUNK))


def inverse(a_CC: Float[Array, "C C"]) -> Float[Array, "C C"]:
    """The inverse of the matrix with ones on the diagonal and `a_CC` below it. C is a power of two.

    Blocks on the diagonal that are inverted are joined in pairs: with `X` and `Y` as their inverses and `A` below the
    first, the inverse of a pair has `-Y A X` there. All products are of whole matrices, and terms do not grow as powers
    of `a_CC` do.
    """
    inverse_CC, indices_C, size = jnp.eye(len(a_CC)), jnp.arange(len(a_CC)), 1
    while size < len(a_CC):
        block_C = indices_C // size
        below_CC = (block_C[:, None] % 2 == 1) & (block_C[None, :] == block_C[:, None] - 1)
        inverse_CC = inverse_CC - inverse_CC @ jnp.where(below_CC, a_CC, 0.0) @ inverse_CC
        size *= 2
    return inverse_CC


class GatedDelta(nnx.Module):
    """The rule with short convolutions of queries, keys and values, and a gate after a norm of each head's output. Its
    cache has the same size at every position."""

    def __init__(
        self,
        config: ModelConfig,
        rngs: nnx.Rngs,
        rule: DeltaRule = rule_of_heads,
    ):
        D, W, (G, H), (K, V) = config.d_model, config.conv_width, config.delta_heads, config.delta_widths
        self.sizes, self.dtype, self.rule = (G, H, K, V, W), jnp.dtype(config.dtype), rule
        R = H // G
        inner, outer = kernel_inits(config)
        linear = functools.partial(Projection, dtype=self.dtype, use_bias=False, rngs=rngs)
        # Of each head of keys: its query and key, then the values and the gates that share it; for beta and alpha
        # likewise. This is the order in which Qwen3-Next stores them.
        self.qkvz = linear(D, (G, 2 * K + 2 * R * V), kernel_init=inner, **split_over(-2))
        self.ba = linear(D, (G, 2 * R), kernel_init=inner, **split_over(-2))
        self.conv = nnx.Param(nnx.initializers.normal(W**-0.5)(rngs.params(), (2 * G * K + H * V, W)))
        steps_H = jnp.geomspace(FASTEST, SLOWEST, H)
        self.dt_bias = nnx.Param(jnp.log(jnp.expm1(steps_H)))  # softplus makes them the steps
        self.a_log = nnx.Param(jnp.zeros(H))
        self.norm = nnx.RMSNorm(V, epsilon=config.norm_epsilon, dtype=jnp.float32, rngs=rngs)
        self.out_proj = linear(H * V, (D,), kernel_init=outer, **split_over(-2))

    def empty_cache(self, batch: int) -> DeltaState:
        """The state of one layer before the first position."""
        _, H, K, V, W = self.sizes
        inputs_BWC = jnp.zeros((batch, W - 1, len(self.conv)), self.dtype)
        return DeltaState(inputs_BWC, jnp.zeros((batch, H, K, V)))

    @jax.named_scope("gated-delta")
    def __call__(
        self, x_BTD: Float[Array, "B T D"], position=0, cache: DeltaState | None = None, layer=0, last=0
    ) -> tuple[Float[Array, "B T D"], DeltaState | None]:
        """Runs the rule over all positions, from the state 0.

        With a cache, runs from the state of `layer`, and returns the cache with the state after the position at index
        `last`.
        """
        (G, H, K, V, W), (B, T, _), f32 = self.sizes, x_BTD.shape, jnp.float32
        before = self.empty_cache(B) if cache is None else DeltaState(*(each[layer] for each in cache))
        q_BTX, k_BTX, v_BTX, z_BTX = self._parts(self.qkvz(x_BTD), K, K, H // G * V, H // G * V)
        b_BTH, a_BTH = self._parts(self.ba(x_BTD).astype(f32), H // G, H // G)
        inputs_BSC = jnp.concatenate([before.inputs_LBWC, jnp.concatenate([q_BTX, k_BTX, v_BTX], axis=-1)], axis=1)
        conv_CW = self.conv[...].astype(self.dtype)
        mixed_BTC = jax.nn.silu(sum(inputs_BSC[:, w : w + T] * conv_CW[None, None, :, w] for w in range(W)))
        q_BTX, k_BTX, v_BTX = jnp.split(mixed_BTC.astype(f32), (G * K, 2 * G * K), axis=-1)
        q_BTHK, k_BTHK = (jnp.repeat(x.reshape(B, T, G, K), H // G, axis=2) for x in (q_BTX, k_BTX))
        beta_BTH = jax.nn.sigmoid(b_BTH)
        log_BTH = -jnp.exp(self.a_log[...])[None, None] * jax.nn.softplus(a_BTH + self.dt_bias[...][None, None])
        if cache is not None:  # padding neither decays nor writes
            is_read_1T1 = (jnp.arange(T) <= last)[None, :, None]
            beta_BTH, log_BTH = (jnp.where(is_read_1T1, x, 0.0) for x in (beta_BTH, log_BTH))
        rows = (q_BTHK, k_BTHK, v_BTX.reshape(B, T, H, V), beta_BTH, log_BTH)
        heads = (x.swapaxes(1, 2).reshape(B * H, T, *x.shape[3:]) for x in rows)
        out_NTV, states_NKV = self.rule(*heads, before.states_LBHKV.reshape(B * H, K, V))
        out_BTHV = self.norm(out_NTV.reshape(B, H, T, V).swapaxes(1, 2))
        out_BTHV = out_BTHV * jax.nn.silu(z_BTX.astype(f32).reshape(out_BTHV.shape))
        out_BTD = self.out_proj(out_BTHV.astype(self.dtype).reshape(B, T, -1))
        if cache is None:
            return out_BTD, None
        after = DeltaState(
            jax.lax.dynamic_slice_in_dim(inputs_BSC, last + 1, W - 1, axis=1), states_NKV.reshape(B, H, K, V)
        )
        return out_BTD, DeltaState(*(every.at[layer].set(own) for every, own in zip(cache, after, strict=True)))

    @staticmethod
    def _parts(x_BTGX: Float[Array, "B T G X"], *widths: int) -> list[Float[Array, "B T Y"]]:
        """The parts of all heads of keys, which lie one after the other in each of them."""
        stops = [sum(widths[: i + 1]) for i in range(len(widths))]
        parts = [x_BTGX[..., stop - width : stop] for width, stop in zip(widths, stops, strict=True)]
        return [part.reshape(*part.shape[:2], -1) for part in parts]
