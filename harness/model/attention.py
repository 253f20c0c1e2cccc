"""Causal attention in tiles of queries, which keeps no `(T, S)` array for the backward pass.

Each tile is multiplied only with the keys up to its end, so most pairs that the mask hides are never computed. The backward
pass recomputes the weights from q, k, v, the output and the log-sum-exp (Dao et al. 2022, algorithm 4). On a GPU that supports
it, cuDNN's fused kernel is used instead.
"""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SMALLEST_TILE = 64  # smaller products are slower than what they save
MOST_TILES = 8  # the tiles are written out in the program


def causal_attention(
    q_BTHK: Float[Array, "B T H K"], k_BTHK: Float[Array, "B T H K"], v_BTHK: Float[Array, "B T H K"]
) -> Float[Array, "B T H K"]:
    """`softmax(q kᵀ / √K + mask) v` for each head. No position attends to a later one."""
    if _cudnn_fits(q_BTHK):
        return jax.nn.dot_product_attention(q_BTHK, k_BTHK, v_BTHK, is_causal=True, implementation="cudnn")
    heads_first = (a.swapaxes(1, 2) for a in (q_BTHK, k_BTHK, v_BTHK))
    return _attention(*heads_first).swapaxes(1, 2)


def _cudnn_fits(q_BTHK: Array) -> bool:
    """Whether cuDNN has a kernel: 16-bit floats, heads of at most 128 in steps of 8, NVIDIA GPUs from Ampere on."""
    if q_BTHK.dtype not in (jnp.bfloat16, jnp.float16) or q_BTHK.shape[-1] > 128 or q_BTHK.shape[-1] % 8:
        return False
    return jax.default_backend() == "gpu" and _is_ampere_or_later()


@functools.cache
def _is_ampere_or_later() -> bool:
    capability = getattr(jax.devices()[0], "compute_capability", "")  # "8.0" on CUDA, "gfx90a" on ROCm
    major, _, _ = str(capability).partition(".")
    return major.isdecimal() and int(major) >= 8


@jax.custom_vjp
def _attention(q_BHTK: Array, k_BHTK: Array, v_BHTK: Array) -> Array:
    return _forward(q_BHTK, k_BHTK, v_BHTK)[0]


def _tiles(T: int) -> Iterator[tuple[slice, slice]]:
    """The queries of each tile, and the keys up to its end."""
    size = max(SMALLEST_TILE, -(-T // MOST_TILES))
    for start in range(0, T, size):
        stop = min(start + size, T)
        yield slice(start, stop), slice(0, stop)


def _scores(q_BHTK: Array, k_BHSK: Array) -> Array:
    """Masked scores of the last T of S positions in float32, with minus infinity at later positions."""
    T, S, K = q_BHTK.shape[2], *k_BHSK.shape[2:]
    scores_BHTS = jnp.einsum("bhtk,bhsk->bhts", q_BHTK, k_BHSK, preferred_element_type=jnp.float32) * K**-0.5
    later_TS = jnp.arange(S)[None, :] > S - T + jnp.arange(T)[:, None]
    return jnp.where(later_TS, -jnp.inf, scores_BHTS)


def _forward(q: Array, k: Array, v: Array) -> tuple[Array, tuple[Array, ...]]:
    outs, log_sums = [], []
    for tile, seen in _tiles(q.shape[2]):
        scores_BHTS = _scores(q[:, :, tile], k[:, :, seen])
        max_BHT1 = scores_BHTS.max(-1, keepdims=True)
        exps_BHTS = jnp.exp(scores_BHTS - max_BHT1)
        total_BHT1 = exps_BHTS.sum(-1, keepdims=True)
        exps_BHTS, values_BHSK = exps_BHTS.astype(v.dtype), v[:, :, seen]
        mixed_BHTK = jnp.einsum("bhts,bhsk->bhtk", exps_BHTS, values_BHSK, preferred_element_type=jnp.float32)
        outs.append((mixed_BHTK / total_BHT1).astype(v.dtype))
        log_sums.append(jnp.log(total_BHT1) + max_BHT1)
    out_BHTK = jnp.concatenate(outs, axis=2)
    return out_BHTK, (q, k, v, out_BHTK, jnp.concatenate(log_sums, axis=2))


def _backward(residuals: tuple[Array, ...], dout_BHTK: Array) -> tuple[Array, ...]:
    q, k, v, out_BHTK, log_sum_BHT1 = residuals
    f32 = jnp.float32
    einsum = functools.partial(jnp.einsum, preferred_element_type=f32)
    shared_BHT1 = jnp.sum(dout_BHTK.astype(f32) * out_BHTK.astype(f32), -1, keepdims=True)
    dqs, dk, dv = [], jnp.zeros(k.shape, f32), jnp.zeros(v.shape, f32)
    for tile, seen in _tiles(q.shape[2]):
        q_tile, dout_tile = q[:, :, tile], dout_BHTK[:, :, tile]
        weights_BHTS = jnp.exp(_scores(q_tile, k[:, :, seen]) - log_sum_BHT1[:, :, tile])
        dv = dv.at[:, :, seen].add(einsum("bhts,bhtk->bhsk", weights_BHTS.astype(v.dtype), dout_tile))
        dweights_BHTS = einsum("bhtk,bhsk->bhts", dout_tile, v[:, :, seen])
        dscores_BHTS = weights_BHTS * (dweights_BHTS - shared_BHT1[:, :, tile]) * q.shape[-1] ** -0.5
        dscores_BHTS = dscores_BHTS.astype(q.dtype)
        dqs.append(einsum("bhts,bhsk->bhtk", dscores_BHTS, k[:, :, seen]))
        dk = dk.at[:, :, seen].add(einsum("bhts,bhtk->bhsk", dscores_BHTS, q_tile))
    return jnp.concatenate(dqs, axis=2).astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)


_attention.defvjp(_forward, _backward)
