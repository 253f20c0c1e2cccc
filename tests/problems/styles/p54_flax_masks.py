"""The mask from Flax's functions, positions by `segment_min`, stories popped from a queue; blocks of queries in a
`fori_loop`."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def pack_stories(stories, context, pad_id):
    queue, rows = deque(list(story) for story in stories), []
    while queue:
        story = queue.popleft()
        if len(story) > context:
            queue.appendleft(story[context:])
            story = story[:context]
        if not story:
            continue
        for row in rows:
            if sum(map(len, row)) + len(story) <= context:
                row.append(story)
                break
        else:
            rows.append([story])
    token_ids, segment_ids = [], []
    for row in rows:
        tokens = [token for story in row for token in story]
        numbers = [number for number, story in enumerate(row, 1) for _ in story]
        token_ids.append(tokens + [pad_id] * (context - len(tokens)))
        segment_ids.append(numbers + [0] * (context - len(numbers)))
    shape = len(rows), context
    return jnp.array(token_ids, jnp.int32).reshape(shape), jnp.array(segment_ids, jnp.int32).reshape(shape)


def segment_positions(segment_ids):
    places = jnp.arange(segment_ids.size)
    return places - jax.ops.segment_min(places, segment_ids, num_segments=segment_ids.size + 1)[segment_ids]


def segment_mask(segment_ids):
    alike = nnx.make_attention_mask(segment_ids, segment_ids, jnp.equal, dtype=bool)
    return nnx.combine_masks(alike, nnx.make_causal_mask(segment_ids, dtype=bool), dtype=bool)[0]


def segment_targets(token_ids, segment_ids):
    following, story = jnp.roll(token_ids, -1), jnp.roll(segment_ids, -1).at[-1].set(0)
    return jnp.where((story == segment_ids) & (story != 0), following, -1)


def segment_attention(q, k, v, segment_ids, block):
    T, K = q.shape
    blocks = -(-T // block)
    q, k, v = (jnp.pad(x, ((0, blocks * block - T), (0, 0))) for x in (q, k, v))
    ids = jnp.pad(segment_ids, (0, blocks * block - T), constant_values=np.iinfo(np.int32).max)

    def part(x, i):
        return jax.lax.dynamic_slice_in_dim(x, i * block, block)

    def of_queries(i):
        rows = i * block + jnp.arange(block)

        def with_keys(state, j):
            def attend(state):
                top, total, out = state
                columns = j * block + jnp.arange(block)
                seen = (part(ids, i)[:, None] == part(ids, j)) & (rows[:, None] >= columns)
                scores = jnp.where(seen, part(q, i) @ part(k, j).T * K**-0.5, -1e30)
                new = jnp.maximum(top, scores.max(axis=1))
                weights, old = jnp.where(seen, jnp.exp(scores - new[:, None]), 0), jnp.exp(top - new)
                return new, old * total + weights.sum(axis=1), old[:, None] * out + weights @ part(v, j)

            meet = (j == i) | (j < i) & (ids[j * block + block - 1] == ids[i * block])
            return jax.lax.cond(meet, attend, lambda state: state, state), None

        start = jnp.full(block, -1e30), jnp.zeros(block), jnp.zeros((block, K))
        (_, total, out), _ = jax.lax.scan(with_keys, start, jnp.arange(blocks))
        return out / total[:, None]

    return jax.lax.map(of_queries, jnp.arange(blocks)).reshape(-1, K)[:T]
