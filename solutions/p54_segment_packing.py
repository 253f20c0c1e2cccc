"""Problem 54, reference: whole stories in rows, and what a model needs in order to keep them apart."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


def pack_stories(
    stories: Sequence[Int[np.ndarray, "N"]], context: int, pad_id: int
) -> tuple[Int[np.ndarray, "R T"], Int[np.ndarray, "R T"]]:
    """Rows of whole stories by first fit (Krell et al. 2021 pack by lengths), with their segment ids."""
    rows: list[list[np.ndarray]] = []
    for story in stories:
        for start in range(0, len(story), context):
            piece = story[start : start + context]
            fitting = (row for row in rows if sum(map(len, row)) + len(piece) <= context)
            row = next(fitting, None)
            if row is None:
                rows.append(row := [])
            row.append(piece)
    token_ids = np.full((len(rows), context), pad_id, np.int32)
    segment_ids = np.zeros((len(rows), context), np.int32)
    for i, row in enumerate(rows):
        filled = sum(map(len, row))
        token_ids[i, :filled] = np.concatenate(row)
        segment_ids[i, :filled] = np.repeat(np.arange(len(row)) + 1, [len(piece) for piece in row])
    return token_ids, segment_ids


def segment_positions(segment_ids: Int[Array, "T"]) -> Int[Array, "T"]:
    """The position of each token in its segment."""
    places = jnp.arange(len(segment_ids), dtype=jnp.int32)
    is_first = jnp.append(True, segment_ids[1:] != segment_ids[:-1])
    return places - jax.lax.cummax(jnp.where(is_first, places, 0))


def segment_mask(segment_ids: Int[Array, "T"]) -> Bool[Array, "T T"]:
    """Whether query t sees key s: one of its own segment that does not come later."""
    return jnp.tri(len(segment_ids), dtype=bool) & (segment_ids[:, None] == segment_ids)


def segment_targets(token_ids: Int[Array, "T"], segment_ids: Int[Array, "T"]) -> Int[Array, "T"]:
    """The next token of the same story, or -1."""
    counts = (segment_ids[1:] == segment_ids[:-1]) & (segment_ids[1:] != 0)
    return jnp.append(jnp.where(counts, token_ids[1:], -1), -1).astype(jnp.int32)


def segment_attention(
    q: Float[Array, "T K"], k: Float[Array, "T K"], v: Float[Array, "T K"], segment_ids: Int[Array, "T"], block: int
) -> Float[Array, "T K"]:
    """Attention within segments, block by block. A pair of blocks without a common segment is not computed."""
    C, K = block, q.shape[1]
    q_NCK, k_NCK, v_NCK = (jnp.pad(x, ((0, -len(x) % C), (0, 0))).reshape(-1, C, K) for x in (q, k, v))
    segments_NC = jnp.pad(segment_ids, (0, -len(segment_ids) % C), constant_values=-1).reshape(-1, C)
    N = len(q_NCK)

    def rows(i: Array) -> Array:
        def add(so_far: tuple[Array, ...], j: Array) -> tuple[Array, ...]:
            max_C, sum_C, out_CK = so_far
            t_C, s_C = i * C + jnp.arange(C), j * C + jnp.arange(C)
            sees_CC = (segments_NC[i][:, None] == segments_NC[j]) & (s_C <= t_C[:, None])
            scores_CC = jnp.where(sees_CC, q_NCK[i] @ k_NCK[j].T / jnp.sqrt(K), -jnp.inf)
            new_C = jnp.maximum(max_C, scores_CC.max(axis=1))
            shrink_C = jnp.exp(max_C - new_C)
            weights_CC = jnp.exp(scores_CC - new_C[:, None])
            return new_C, sum_C * shrink_C + weights_CC.sum(axis=1), out_CK * shrink_C[:, None] + weights_CC @ v_NCK[j]

        def visit(so_far: tuple[Array, ...], back: Array) -> tuple[tuple[Array, ...], None]:
            """Block i - back. The first is block i, in which every query sees itself, so no maximum stays at -inf."""
            j = i - back
            shared = (j >= 0) & ((back == 0) | (segments_NC[j, -1] == segments_NC[i, 0]))
            return jax.lax.cond(shared, add, lambda same, _: same, so_far, j), None

        nothing = (jnp.full(C, -jnp.inf), jnp.zeros(C), jnp.zeros((C, K)))
        (_, sum_C, out_CK), _ = jax.lax.scan(visit, nothing, jnp.arange(N))
        return out_CK / sum_C[:, None]

    return jax.lax.map(rows, jnp.arange(N)).reshape(-1, K)[: len(q)]
