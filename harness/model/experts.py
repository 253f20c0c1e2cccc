"""Experts: feed-forward networks of which each token uses some (Shazeer et al. 2017), and no choice is dropped.

Shapes: N rows, D model width, E experts, k of them for a row, F width of an expert, M choices (M = N k), J tiles of R
rows.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from harness.model.layers import Projection, kernel_inits, split_over
from harness.model_config import ModelConfig

GAIN, LIMIT = 1.702, 7.0  # of gpt-oss's SwiGLU
# What the "gradient" of the bias is multiplied by, so that it weighs nothing in the norm of all gradients
LOAD_SCALE = 1e-12
# (rows, router, bias, k, kernels of the experts and of the shared one) -> the outputs, and how many rows chose each
# expert, as problem 73 has it
MixtureOfExperts = Callable[..., tuple[Array, Array]]


class Kernel(nnx.Module):
    """A kernel, whose axis `inputs` is summed over, and a bias. The module that has them knows which rows it
    multiplies."""

    def __init__(self, kernel: Array, inputs: int, *, use_bias: bool, **metadata: Any):
        self.kernel = nnx.Param(kernel, **metadata)
        shape = (*kernel.shape[:inputs], *kernel.shape[inputs + 1 :])
        self.bias = nnx.Param(jnp.zeros(shape)) if use_bias else None


class Experts(nnx.Module):
    """The experts of a block, and the one that all rows use if `d_shared` is set.

    `route` chooses them. With `router=sigmoid`, a bias that balances their load takes part in the choice (DeepSeek-AI
    2024, without its groups of experts).
    """

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs, moe: MixtureOfExperts | None = None):
        D, F, E, M = config.d_model, config.d_ff, config.experts, config.d_shared
        inner, outer = kernel_inits(config)
        into, back = inner, outer
        if config.init == "xavier":  # of each expert
            into = back = nnx.initializers.xavier_uniform(batch_axis=(0,))
        has, dtype = config.bias, jnp.dtype(config.dtype)
        self.config, self.dtype, self.moe = config, dtype, moe
        self.router = Kernel(inner(rngs.params(), (D, E)), 0, use_bias=has)
        self.gate_up = Kernel(into(rngs.params(), (E, D, 2 * F)).reshape(E, D, 2, F), 1, use_bias=has, model_axis=-1)
        self.down = Kernel(back(rngs.params(), (E, F, D)), 1, use_bias=has, model_axis=-2)
        self.choice_bias = nnx.Param(jnp.zeros(E)) if config.has_router_bias else None
        linear = functools.partial(Projection, use_bias=has, dtype=dtype, rngs=rngs)
        if M:
            self.shared_gate_up = linear(D, (2, M), kernel_init=inner, **split_over(-1, -1))
            self.shared_down = linear(M, (D,), kernel_init=outer, **split_over(-2))
        self.shared_gate = linear(D, (1,), use_bias=False, kernel_init=inner) if config.shared_gate else None

    def __call__(self, x_ND: Float[Array, "N D"]) -> Float[Array, "N D"]:
        """The sum of the outputs of each row's experts, with their weights."""
        if self.moe is not None:
            return self._by_piece(self.moe, x_ND)
        config, wide_ND = self.config, x_ND.astype(jnp.float32)  # a choice is all or nothing, so it is made in float32
        logits_NE = wide_ND @ self.router.kernel[...]
        if self.router.bias is not None:
            logits_NE = logits_NE + self.router.bias[...][None]
        bias_E = None if self.choice_bias is None else self.choice_bias[...]
        experts_Nk, weights_Nk = route(logits_NE, bias_E, config.experts_per_token, config.router)
        out_ND = self._chosen(x_ND.astype(self.dtype), experts_Nk, weights_Nk)
        if not config.d_shared:
            return out_ND
        shared_ND = self.shared_down(self._activated(self.shared_gate_up(x_ND)))
        return out_ND + (shared_ND if self.shared_gate is None else jax.nn.sigmoid(self.shared_gate(x_ND)) * shared_ND)

    def _by_piece(self, moe: MixtureOfExperts, x_ND: Array) -> Float[Array, "N D"]:
        assert self.choice_bias is not None
        bias_E, layers = self.choice_bias[...], (self.gate_up, self.shared_gate_up)
        gate_up, shared = (x.kernel[...].reshape(*x.kernel.shape[:-2], -1) for x in layers)
        choice = self.router.kernel[...], jax.lax.stop_gradient(bias_E), self.config.experts_per_token
        kernels = gate_up, self.down.kernel[...], shared, self.shared_down.kernel[...]
        out_ND, counts_E = moe(x_ND.astype(jnp.float32), *choice, *kernels)
        return with_load(out_ND.astype(self.dtype), bias_E, counts_E.astype(jnp.float32))

    def _chosen(self, x_ND: Array, experts_Nk: Int[Array, "N k"], weights_Nk: Float[Array, "N k"]) -> Array:
        (N, k), E, D = experts_Nk.shape, self.config.experts, x_ND.shape[1]
        place_M, expert_J, R = in_tiles(experts_Nk.reshape(-1), E)
        rows_PD = jnp.zeros((len(expert_J) * R, D), x_ND.dtype).at[place_M].set(jnp.repeat(x_ND, k, axis=0))
        hidden_JRX = self._product(rows_PD.reshape(-1, R, D), self.gate_up, expert_J)
        hidden_JRF = self._activated(hidden_JRX.reshape(*hidden_JRX.shape[:2], 2, -1))
        out_JRD = self._product(hidden_JRF, self.down, expert_J)
        out_NkD = out_JRD.reshape(-1, D)[place_M].reshape(N, k, D)
        return jnp.sum(weights_Nk.astype(out_NkD.dtype)[..., None] * out_NkD, axis=1)

    def _product(self, rows_JRX: Array, layer: Kernel, expert_J: Int[Array, "J"]) -> Float[Array, "J R Y"]:
        """The rows of each tile times the kernel of its expert."""
        kernel = layer.kernel[...].astype(self.dtype)
        out = jnp.einsum("jrx,jxy->jry", rows_JRX, kernel.reshape(*kernel.shape[:2], -1)[expert_J])
        if layer.bias is None:
            return out
        return out + layer.bias[...].astype(self.dtype).reshape(len(kernel), 1, -1)[expert_J]

    def _activated(self, x: Float[Array, "*N 2 F"]) -> Float[Array, "*N F"]:
        gate, up = x[..., 0, :], x[..., 1, :]
        if not self.config.clamped_swiglu:
            return jax.nn.silu(gate) * up
        gate, up = jnp.minimum(gate, LIMIT), jnp.clip(up, -LIMIT, LIMIT)
        return (up + 1) * gate * jax.nn.sigmoid(GAIN * gate)


def route(
    logits_NE: Float[Array, "N E"], bias_E: Float[Array, "E"] | None, k: int, router: str
) -> tuple[Int[Array, "N k"], Float[Array, "N k"]]:
    """The experts of each row and their weights. A bias takes part in the choice alone."""
    if router == "softmax":
        chosen_Nk, experts_Nk = jax.lax.top_k(logits_NE, k)
        return experts_Nk, jax.nn.softmax(chosen_Nk)
    if router == "softmax_all":
        weights_Nk, experts_Nk = jax.lax.top_k(jax.nn.softmax(logits_NE), k)
        return experts_Nk, weights_Nk
    assert bias_E is not None
    scores_NE = jax.nn.sigmoid(logits_NE)
    _, experts_Nk = jax.lax.top_k(jax.lax.stop_gradient(scores_NE + bias_E[None]), k)
    chosen_Nk = jnp.take_along_axis(scores_NE, experts_Nk, axis=1)
    weights_Nk = chosen_Nk / (chosen_Nk.sum(axis=1, keepdims=True) + 1e-9)
    counts_E = jnp.bincount(experts_Nk.reshape(-1), length=len(bias_E)).astype(jnp.float32)
    return experts_Nk, with_load(weights_Nk, bias_E, counts_E)


@jax.custom_vjp
def with_load(weights: Array, bias_E: Float[Array, "E"], counts_E: Float[Array, "E"]) -> Array:
    """The weights. The "gradient" of the bias is how many rows chose each expert, so that it is summed over
    microbatches and devices like every gradient. `training/optimizer.py` moves the bias by it."""
    del bias_E, counts_E
    return weights


def _with_load_forward(weights: Array, bias_E: Array, counts_E: Array) -> tuple[Array, Any]:
    return with_load(weights, bias_E, counts_E), counts_E


def _with_load_backward(counts_E: Array, dweights: Array) -> tuple[Array, Array, Array]:
    return dweights, LOAD_SCALE * counts_E, jnp.zeros_like(counts_E)


with_load.defvjp(_with_load_forward, _with_load_backward)


def in_tiles(expert_M: Int[Array, "M"], experts: int) -> tuple[Int[Array, "M"], Int[Array, "J"], int]:
    """The row of each choice in tiles that are of one expert each, the experts of the tiles, and the rows of a tile.

    A tile has up to the mean number of choices of an expert, so that fewer than M rows are empty, whatever is chosen.
    With few choices, each is a tile.
    """
    M = len(expert_M)
    R = 1 << max((M // experts).bit_length() - 1, 0)
    used = min(experts, M)  # by this many experts, the most tiles are begun
    J = (M - used) // R + used
    counts_E = jnp.bincount(expert_M, length=experts)
    tiles_E = -(-counts_E // R)
    last_tile_E = jnp.cumsum(tiles_E)
    order_M = jnp.argsort(expert_M)
    sorted_M = expert_M[order_M]
    rank_M = jnp.arange(M) - (jnp.cumsum(counts_E) - counts_E)[sorted_M]
    place_M = jnp.zeros(M, jnp.int32).at[order_M].set(R * (last_tile_E - tiles_E)[sorted_M] + rank_M)
    expert_J = jnp.searchsorted(last_tile_E, jnp.arange(J), side="right", method="scan_unrolled")
    return place_M, jnp.minimum(expert_J, experts - 1), R
