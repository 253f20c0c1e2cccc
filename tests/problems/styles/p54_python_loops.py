"""Python loops over blocks, a NumPy packer that keeps the room of each row, and `associative_scan` for the positions."""

import jax
import jax.numpy as jnp
import numpy as np


def pack_stories(stories, context, pad_id):
    tokens, segments = np.zeros((0, context), np.int32), np.zeros((0, context), np.int32)
    room, count = [], []
    for story in stories:
        for piece in (story[i : i + context] for i in range(0, len(story), context)):
            fits = [r for r, free in enumerate(room) if free >= len(piece)]
            if not fits:
                tokens = np.vstack([tokens, np.full((1, context), pad_id, np.int32)])
                segments = np.vstack([segments, np.zeros((1, context), np.int32)])
                room.append(context)
                count.append(0)
                fits = [len(room) - 1]
            r = fits[0]
            start = context - room[r]
            count[r] += 1
            tokens[r, start : start + len(piece)] = piece
            segments[r, start : start + len(piece)] = count[r]
            room[r] -= len(piece)
    return tokens, segments


def segment_positions(segment_ids):
    changes = jnp.concatenate([jnp.ones(1, bool), jnp.diff(segment_ids) != 0])

    def join(a, b):
        (n, reset_a), (m, reset_b) = a, b
        return jnp.where(reset_b, m, n + m), reset_a | reset_b

    counts, _ = jax.lax.associative_scan(join, (jnp.ones(len(segment_ids), jnp.int32), changes))
    return counts - 1


def segment_mask(segment_ids):
    return jnp.tril(jnp.equal(*jnp.meshgrid(segment_ids, segment_ids, indexing="ij")))


def segment_targets(token_ids, segment_ids):
    targets = jnp.full_like(token_ids, -1)
    counts = (segment_ids[:-1] > 0) & (segment_ids[:-1] == segment_ids[1:])
    return targets.at[:-1].set(jnp.where(counts, token_ids[1:], -1))


def segment_attention(q, k, v, segment_ids, block):
    T, K = q.shape
    outputs = []
    for first in range(0, T, block):
        stop = min(first + block, T)
        rows = slice(first, stop)
        scores = [jnp.where(segment_mask(segment_ids[rows]), q[rows] @ k[rows].T / jnp.sqrt(K), -jnp.inf)]
        values = [v[rows]]
        for start in range(0, first, block):
            columns = slice(start, start + block)
            scores.append(
                jax.lax.cond(
                    segment_ids[start + block - 1] == segment_ids[first],
                    lambda columns=columns, rows=rows: jnp.where(
                        segment_ids[rows, None] == segment_ids[None, columns],
                        q[rows] @ k[columns].T / jnp.sqrt(K),
                        -jnp.inf,
                    ),
                    lambda rows=rows: jnp.full((rows.stop - rows.start, block), -jnp.inf),
                )
            )
            values.append(v[columns])
        weights = jnp.split(
            jax.nn.softmax(jnp.concatenate(scores, 1), axis=1), np.cumsum([s.shape[1] for s in scores])[:-1], 1
        )
        total = weights[0] @ values[0]
        for number, start in enumerate(range(0, first, block), 1):
            total += jax.lax.cond(
                segment_ids[start + block - 1] == segment_ids[first],
                lambda number=number, weights=weights, values=values: weights[number] @ values[number],
                lambda total=total: jnp.zeros_like(total),
            )
        outputs.append(total)
    return jnp.concatenate(outputs)
