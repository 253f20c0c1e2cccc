"""Lists in Python, positions by counting, and a loop with cond over pairs of blocks, from block 0 on with a finite
minimum."""

import jax.numpy as jnp
import numpy as np
from jax import lax


def pack_stories(stories, context, pad_id):
    pieces = [s[i : i + context] for s in stories for i in range(0, len(s), context)]
    used, ids, segments = [], [], []
    for piece in pieces:
        place = next((i for i, n in enumerate(used) if n + len(piece) <= context), len(used))
        if place == len(used):
            used.append(0)
            ids.append([])
            segments.append([])
        ids[place] += piece.tolist()
        number = segments[place][-1] + 1 if segments[place] else 1
        segments[place] += [number] * len(piece)
        used[place] += len(piece)
    token_ids = np.array([row + [pad_id] * (context - len(row)) for row in ids], np.int32).reshape(-1, context)
    segment_ids = np.array([row + [0] * (context - len(row)) for row in segments], np.int32).reshape(-1, context)
    return token_ids, segment_ids


def segment_positions(segment_ids):
    return (jnp.tril(segment_ids[:, None] == segment_ids).sum(axis=1) - 1).astype(jnp.int32)


def segment_mask(segment_ids):
    t = jnp.arange(segment_ids.shape[0])
    return jnp.logical_and(segment_ids[:, None] == segment_ids[None, :], t[:, None] >= t[None, :])


def segment_targets(token_ids, segment_ids):
    following = jnp.roll(token_ids, -1)
    same = (jnp.roll(segment_ids, -1) == segment_ids).at[-1].set(False)
    return jnp.where(same & (segment_ids > 0), following, -1)


def segment_attention(q, k, v, segment_ids, block):
    T, K = q.shape
    n = (T + block - 1) // block
    pad = n * block - T
    qs, ks, vs = (jnp.pad(x, ((0, pad), (0, 0))).reshape(n, block, K) for x in (q, k, v))
    seg = jnp.pad(segment_ids, (0, pad), constant_values=-7).reshape(n, block)
    place = jnp.arange(n * block).reshape(n, block)

    def body(state, pair):
        i, j = pair

        def go(state):
            m, den, num = state
            see = (seg[i][:, None] == seg[j][None, :]) & (place[i][:, None] >= place[j][None, :])
            s = jnp.where(see, qs[i] @ ks[j].T * K**-0.5, -1e30)
            m2 = jnp.maximum(m[i], s.max(-1))
            a = jnp.exp(m[i] - m2)
            e = jnp.where(see, jnp.exp(s - m2[:, None]), 0.0)
            return (
                m.at[i].set(m2),
                den.at[i].set(den[i] * a + e.sum(-1)),
                num.at[i].set(num[i] * a[:, None] + e @ vs[j]),
            )

        overlap = (seg[i].min() <= seg[j].max()) & (seg[i].max() >= seg[j].min()) & (seg[j, -1] == seg[i, 0]) | (i == j)
        return lax.cond(overlap, go, lambda x: x, state), None

    pairs = jnp.array([(i, j) for i in range(n) for j in range(i + 1)])
    start = (jnp.full((n, block), -1e30), jnp.zeros((n, block)), jnp.zeros((n, block, K)))
    (_, den, num), _ = lax.scan(body, start, (pairs[:, 0], pairs[:, 1]))
    return (num / den[..., None]).reshape(n * block, K)[:T]
