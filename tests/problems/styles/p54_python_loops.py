"""Python loops over blocks, a NumPy packer that keeps the room of each row, and `associative_scan` for the
positions."""

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
    size = -(-T // block) * block
    q, k, v = (jnp.pad(x, ((0, size - T), (0, 0))) for x in (q, k, v))
    segment_ids = jnp.pad(segment_ids, (0, size - T), constant_values=99)
    outputs = []
    for first in range(0, size, block):
        rows = jnp.arange(first, first + block)

        def add(state, start, rows=rows, first=first):
            columns = start + jnp.arange(block)
            seen = (segment_ids[rows][:, None] == segment_ids[columns]) & (columns <= rows[:, None])

            def visit(state):
                top, weights, out = state
                scores = jnp.where(seen, q[rows] @ k[columns].T / jnp.sqrt(K), -1e20)
                new = jnp.maximum(top, scores.max(axis=1))
                old, e = jnp.exp(top - new), jnp.where(seen, jnp.exp(scores - new[:, None]), 0)
                return new, weights * old + e.sum(axis=1), out * old[:, None] + e @ v[columns]

            shared = (start == first) | (segment_ids[columns[-1]] == segment_ids[first])
            return jax.lax.cond(shared, visit, lambda same: same, state), None

        start = (jnp.full(block, -1e20), jnp.zeros(block), jnp.zeros((block, K)))
        (_, weights, out), _ = jax.lax.scan(add, start, jnp.arange(0, first + block, block))
        outputs.append(out / weights[:, None])
    return jnp.concatenate(outputs)[:T]
