"""Causal attention in tiles of queries, which keeps no `(T, S)` array for the backward pass.

Each tile is multiplied only with the keys up to its end, so most pairs that the mask hides are never computed. The
backward pass recomputes the weights from q, k, v, the output and the log-sum-exp (Dao et al. 2022, algorithm 4). On a
GPU that supports it, cuDNN's fused kernel is used instead. JAX passes it segments as a bias `(B, 1, T, T)`, whose
gradient is then computed, too: half as slow again, and three times as fast as tiles.
"""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

SMALLEST_TILE = 64  # smaller products are slower than what they save
MOST_TILES = 8  # the tiles are written out in the program


def causal_attention(
    q_BTHK: Float[Array, "B T H K"],
    k_BTHK: Float[Array, "B T H K"],
    v_BTHV: Float[Array, "B T H V"],
    window: int = 0,
    segments_BT: Int[Array, "B T"] | None = None,
    sinks_H: Float[Array, "H"] | None = None,
) -> Float[Array, "B T H V"]:
    """`softmax(q kᵀ / √K + mask) v` for each head, with values of K numbers or less.

    No position attends to a later one, nor to another segment. With a window of W, each attends to itself and the W - 1
    positions before it (Beltagy et al. 2020). A sink is one more score of each head, whose value is 0 (Agarwal et al.
    2025, gpt-oss).
    """
    T, K, V = q_BTHK.shape[1], q_BTHK.shape[-1], v_BTHV.shape[-1]
    is_even = segments_BT is None or T % 2 == 0  # the bias of cuDNN has an even number of columns
    if cudnn_fits(q_BTHK.dtype, K) and is_even and sinks_H is None:
        v_BTHK = jnp.pad(v_BTHV, ((0, 0), (0, 0), (0, 0), (0, K - V)))  # its values are as wide as its keys
        seen: dict[str, Any] = {"local_window_size": (window - 1, 0) if window else None}
        if segments_BT is not None:
            hidden_TT = is_hidden(jnp.arange(T)[:, None], jnp.arange(T)[None, :], window)
            seen = {"mask": ~(hidden_TT[None, None] | _apart(segments_BT, segments_BT))}
        mixed_BTHK = jax.nn.dot_product_attention(
            q_BTHK, k_BTHK, v_BTHK, is_causal=True, implementation="cudnn", **seen
        )
        return mixed_BTHK[..., :V]
    heads_first = (a.swapaxes(1, 2) for a in (q_BTHK, k_BTHK, v_BTHV))
    return _attention(window, *heads_first, segments_BT, sinks_H).swapaxes(1, 2)


def cached_attention(
    q_BTHK: Float[Array, "B T H K"],
    k_BGSK: Float[Array, "B G S K"],
    v_BGSV: Float[Array, "B G S V"],
    positions_T: Int[Array, "T"],
    window: int | Int[Array, ""] = 0,
    sinks_H: Float[Array, "H"] | None = None,
    scale: float = 0.0,
) -> Float[Array, "B T H V"]:
    """The attention of the queries at some positions to the keys up to them, which lie in the order of the products.

    The scale of the scores is 1 / √K if it is 0. A window that is traced must be at least 1. Sinks are those of
    `causal_attention`.
    """
    B, T, H, K = q_BTHK.shape
    q_BTGRK = q_BTHK.reshape(B, T, k_BGSK.shape[1], -1, K)  # R heads share the keys of a group
    scores_BGRTS = jnp.einsum("btgrk,bgsk->bgrts", q_BTGRK, k_BGSK, preferred_element_type=jnp.float32)
    scores_BGRTS = scores_BGRTS * (scale or K**-0.5)
    hidden_TS = is_hidden(positions_T[:, None], jnp.arange(k_BGSK.shape[2])[None, :], window)
    scores_BGRTS = jnp.where(hidden_TS, -jnp.inf, scores_BGRTS)
    if sinks_H is not None:  # the last column, which is left out of the mix
        sinks_BGRT1 = jnp.broadcast_to(by_group(sinks_H, k_BGSK.shape[1])[..., None], (*scores_BGRTS.shape[:-1], 1))
        scores_BGRTS = jnp.concatenate([scores_BGRTS, sinks_BGRT1], axis=-1)
    weights_BGRTS = jax.nn.softmax(scores_BGRTS).astype(v_BGSV.dtype)
    if sinks_H is not None:
        weights_BGRTS = weights_BGRTS[..., :-1]
    return jnp.einsum("bgrts,bgsv->btgrv", weights_BGRTS, v_BGSV).reshape(B, T, H, -1)


def by_group(sinks_H: Float[Array, "H"], groups: int) -> Float[Array, "G R 1"]:
    """The sinks of the heads that share keys, as scores of one position."""
    return sinks_H.astype(jnp.float32).reshape(groups, -1, 1)


def cudnn_fits(dtype: Any, width: int) -> bool:
    """Whether cuDNN has a kernel: 16-bit floats, heads of at most 128 in steps of 8, NVIDIA GPUs from Ampere on."""
    if dtype not in (jnp.bfloat16, jnp.float16) or width > 128 or width % 8:
        return False
    return jax.default_backend() == "gpu" and _is_ampere_or_later()


@functools.cache
def _is_ampere_or_later() -> bool:
    capability = getattr(jax.devices()[0], "compute_capability", "")  # "8.0" on CUDA, "gfx90a" on ROCm
    major, _, _ = str(capability).partition(".")
    return major.isdecimal() and int(major) >= 8


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(
    window: int, q_BHTK: Array, k_BHTK: Array, v_BHTK: Array, segments_BT: Array | None, sinks_H: Array | None
) -> Array:
    return _forward(window, q_BHTK, k_BHTK, v_BHTK, segments_BT, sinks_H)[0]


def is_hidden(queries: Array, keys: Array, window: int | Array) -> Array:
    """Whether the mask hides keys at these positions from queries at these."""
    no_window = isinstance(window, int) and not window
    return keys > queries if no_window else (keys > queries) | (keys <= queries - window)


def _apart(rows_BN: Array, columns_BM: Array) -> Array:
    """Whether two positions are in different segments, (B, 1, N, M)."""
    return rows_BN[:, None, :, None] != columns_BM[:, None, None, :]


def _tiles(T: int, window: int) -> Iterator[tuple[slice, slice]]:
    """The queries of each tile, and the keys that one of them attends to."""
    size = max(SMALLEST_TILE, -(-T // MOST_TILES))
    for start in range(0, T, size):
        stop = min(start + size, T)
        yield slice(start, stop), slice(max(start - window + 1, 0) if window else 0, stop)


def _scores(q_BHTK: Array, k_BHSK: Array, window: int, segments_BS: Array | None) -> Array:
    """Masked scores of the last T of S positions in float32, with minus infinity at those that the mask hides."""
    T, S, K = q_BHTK.shape[2], *k_BHSK.shape[2:]
    scores_BHTS = jnp.einsum("bhtk,bhsk->bhts", q_BHTK, k_BHSK, preferred_element_type=jnp.float32) * K**-0.5
    hidden = is_hidden(S - T + jnp.arange(T)[:, None], jnp.arange(S)[None, :], window)
    if segments_BS is not None:
        hidden = hidden[None, None] | _apart(segments_BS[:, S - T :], segments_BS)
    return jnp.where(hidden, -jnp.inf, scores_BHTS)


def _forward(
    window: int, q: Array, k: Array, v: Array, segments_BT: Array | None, sinks_H: Array | None
) -> tuple[Array, tuple[Array | None, ...]]:
    outs, log_sums = [], []
    for tile, seen in _tiles(q.shape[2], window):
        segments_BS = None if segments_BT is None else segments_BT[:, seen]
        scores_BHTS = _scores(q[:, :, tile], k[:, :, seen], window, segments_BS)
        max_BHT1 = scores_BHTS.max(-1, keepdims=True)
        if sinks_H is not None:
            max_BHT1 = jnp.maximum(max_BHT1, _as_scores(sinks_H))
        exps_BHTS = jnp.exp(scores_BHTS - max_BHT1)
        total_BHT1 = exps_BHTS.sum(-1, keepdims=True)
        if sinks_H is not None:
            total_BHT1 = total_BHT1 + jnp.exp(_as_scores(sinks_H) - max_BHT1)
        exps_BHTS, values_BHSK = exps_BHTS.astype(v.dtype), v[:, :, seen]
        mixed_BHTK = jnp.einsum("bhts,bhsk->bhtk", exps_BHTS, values_BHSK, preferred_element_type=jnp.float32)
        outs.append((mixed_BHTK / total_BHT1).astype(v.dtype))
        log_sums.append(jnp.log(total_BHT1) + max_BHT1)
    out_BHTK = jnp.concatenate(outs, axis=2)
    return out_BHTK, (q, k, v, segments_BT, sinks_H, out_BHTK, jnp.concatenate(log_sums, axis=2))


def _as_scores(sinks_H: Array) -> Float[Array, "1 H 1 1"]:
    return sinks_H.astype(jnp.float32)[None, :, None, None]


def _backward(window: int, residuals: tuple[Any, ...], dout_BHTK: Array) -> tuple[Array | None, ...]:
    # Scores have the keys first here. Of the products below, XLA then has a fast one on a CPU for all but that of dq.
    q, k, v, segments_BT, sinks_H, out_BHTK, log_sum_BHT1 = residuals
    f32 = jnp.float32
    einsum = functools.partial(jnp.einsum, preferred_element_type=f32)
    shared_BHT1 = jnp.sum(dout_BHTK.astype(f32) * out_BHTK.astype(f32), -1, keepdims=True)
    dqs, dk, dv = [], jnp.zeros(k.shape, f32), jnp.zeros(v.shape, f32)
    for tile, seen in _tiles(q.shape[2], window):
        q_tile, dout_tile = q[:, :, tile], dout_BHTK[:, :, tile]
        log_sum_BH1T, shared_BH1T = (a[:, :, tile].swapaxes(2, 3) for a in (log_sum_BHT1, shared_BHT1))
        S, T = seen.stop - seen.start, tile.stop - tile.start
        scores_BHST = einsum("bhsk,bhtk->bhst", k[:, :, seen], q_tile) * q.shape[-1] ** -0.5
        hidden = is_hidden(S - T + jnp.arange(T)[None, :], jnp.arange(S)[:, None], window)
        if segments_BT is not None:
            hidden = hidden[None, None] | _apart(segments_BT[:, seen], segments_BT[:, tile])
        weights_BHST = jnp.exp(jnp.where(hidden, -jnp.inf, scores_BHST) - log_sum_BH1T)
        dv = dv.at[:, :, seen].add(einsum("bhst,bhtk->bhsk", weights_BHST.astype(v.dtype), dout_tile))
        dweights_BHST = einsum("bhsk,bhtk->bhst", v[:, :, seen], dout_tile)
        dscores_BHST = weights_BHST * (dweights_BHST - shared_BH1T) * q.shape[-1] ** -0.5
        dscores_BHST = dscores_BHST.astype(q.dtype)
        dqs.append(einsum("bhst,bhsk->bhtk", dscores_BHST, k[:, :, seen]))
        dk = dk.at[:, :, seen].add(einsum("bhst,bhtk->bhsk", dscores_BHST, q_tile))
    dsinks_H = None
    if sinks_H is not None:  # whose values are 0
        weights_BHT1 = jnp.exp(_as_scores(sinks_H) - log_sum_BHT1)
        dsinks_H = -jnp.sum(weights_BHT1 * shared_BHT1, axis=(0, 2, 3)).astype(sinks_H.dtype)
    return jnp.concatenate(dqs, axis=2).astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype), None, dsinks_H


_attention.defvjp(_forward, _backward)
