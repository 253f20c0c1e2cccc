"""Patch by patch and token by token, in Python loops, as somebody who trusts indices writes it."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def patchify(picture, patch_size, merge):
    height, width, channels = picture.shape
    patches = []
    for top in range(0, height, patch_size * merge):
        for left in range(0, width, patch_size * merge):
            for down in range(merge):
                for right in range(merge):
                    y, x = top + down * patch_size, left + right * patch_size
                    tile = picture[y : y + patch_size, x : x + patch_size]
                    patches.append(np.concatenate([tile[:, :, channel].ravel() for channel in range(channels)]))
    return np.array(patches)


class Projector(nnx.Module):
    def __init__(self, patch_width, d_model, merge, rngs):
        self.together = merge**2
        joined = self.together * patch_width
        self.norm = nnx.LayerNorm(patch_width, epsilon=1e-6, rngs=rngs)
        self.linear_fc1 = nnx.Linear(joined, joined, rngs=rngs)
        self.linear_fc2 = nnx.Linear(joined, d_model, rngs=rngs)

    def __call__(self, patches):
        def token(square):
            x = self.linear_fc1(jnp.concatenate([self.norm(patch) for patch in square]))
            return self.linear_fc2(x * (1 + jax.scipy.special.erf(x / jnp.sqrt(2))) / 2)

        squares = [patches[i : i + self.together] for i in range(0, len(patches), self.together)]
        return jnp.stack([token(square) for square in squares])


def layout(token_ids, placeholder, grids):
    places, number, largest, picture = [], [], -1, 0
    left = [(int(rows), int(columns)) for rows, columns in grids]
    while len(places) < len(token_ids):
        start, count = largest + 1, len(places)
        if token_ids[count] != placeholder:
            places.append((start, start, start))
            number.append(0)
        else:
            rows, columns = left.pop(0)
            picture += 1
            for row in range(rows):
                for column in range(columns):
                    places.append((start, start + row, start + column))
                    number.append(picture)
        largest = max(largest, *(max(place) for place in places[count:]))
    return np.array(places, np.int32).T, np.array(number, np.int32)


def mixed_embeddings(table, token_ids, pictures, features):
    used, rows = -1, []
    for t in range(len(token_ids)):
        used = used + (pictures[t] > 0)
        text = table[jnp.minimum(token_ids[t], len(table) - 1)]
        rows.append(jnp.where(pictures[t] > 0, features[used], text) if len(features) else text)
    return jnp.stack(rows)


def rotate(x, positions, axes, base):
    pairs = x.shape[2] // 2
    firsts, seconds = [], []
    for i in range(pairs):
        angle = positions[axes[i]] * base ** (-2 * i / (2 * pairs))
        cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
        firsts.append(x[:, :, i] * cos - x[:, :, i + pairs] * sin)
        seconds.append(x[:, :, i] * sin + x[:, :, i + pairs] * cos)
    return jnp.stack(firsts + seconds, axis=-1)


def picture_mask(pictures):
    t, s = jnp.indices((len(pictures), len(pictures)))
    return jnp.where(s <= t, True, (pictures[t] == pictures[s]) & (pictures[t] != 0))


def text_loss(logits, token_ids, pictures):
    total, count = 0.0, 0
    for t in range(len(token_ids) - 1):
        target = token_ids[t + 1]
        counts = pictures[t + 1] == 0
        total += jnp.where(counts, jax.nn.logsumexp(logits[t]) - logits[t, target], 0.0)
        count += counts
    return total / jnp.where(count == 0, 1, count)
