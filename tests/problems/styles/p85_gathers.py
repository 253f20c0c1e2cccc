"""Everything as indices: which number of the picture goes where, and which key is the last that a token sees."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def patchify(picture, patch_size, merge):
    Y, X, C = picture.shape
    across = X // (patch_size * merge)
    patch = np.arange((Y // patch_size) * (X // patch_size))
    square, inside = patch // merge**2, patch % merge**2
    top = (square // across * merge + inside // merge) * patch_size
    left = (square % across * merge + inside % merge) * patch_size
    channel, y, x = np.unravel_index(np.arange(C * patch_size**2), (C, patch_size, patch_size))
    return picture[top[:, None] + y, left[:, None] + x, channel]


class Projector(nnx.Module):
    def __init__(self, patch_width, d_model, merge, rngs):
        wide = patch_width * merge * merge
        self.norm = nnx.LayerNorm(patch_width, rngs=rngs)
        self.linear_fc1 = nnx.Linear(wide, wide, rngs=rngs)
        self.linear_fc2 = nnx.Linear(wide, d_model, rngs=rngs)

    def __call__(self, patches):
        F = patches.shape[1]
        kernel = self.linear_fc1.kernel[...].reshape(-1, F, self.linear_fc1.out_features)
        normed = self.norm(patches).reshape(-1, len(kernel), F)
        hidden = jnp.einsum("qpf,pfh->qh", normed, kernel) + self.linear_fc1.bias[...]
        return self.linear_fc2(jax.nn.gelu(hidden, approximate=False))


def layout(token_ids, placeholder, grids):
    """Each token says how far the next one moves, and a sum of the moves is the time."""
    T, n = len(token_ids), len(grids)
    is_picture = token_ids == placeholder
    ends = np.cumsum([0, *(int(r) * int(c) for r, c in grids)])
    nth = np.cumsum(is_picture) - 1  # of all placeholders
    picture = np.where(is_picture, np.searchsorted(ends, nth, side="right"), 0)
    inside = np.where(is_picture, nth - ends[np.maximum(picture - 1, 0)], 0)
    rows, columns = np.vstack([np.ones((1, 2), int), grids]).T[:, picture] if n else np.ones((2, T), int)
    last = inside == rows * columns - 1
    moves = np.where(is_picture, np.where(last, np.maximum(rows, columns), 0), 1)
    time = np.cumsum(moves) - moves
    positions = np.stack([time, time + inside // columns, time + inside % columns])
    return positions.astype(np.int32), picture.astype(np.int32)


def mixed_embeddings(table, token_ids, pictures, features):
    both = jnp.concatenate([table, features])
    nth = jnp.cumsum(pictures > 0) - 1
    return both[jnp.where(pictures > 0, len(table) + nth, token_ids)]


def rotate(x, positions, axes, base):
    pairs = x.shape[-1] // 2
    at = jnp.take_along_axis(positions, jnp.broadcast_to(axes[:, None], (pairs, positions.shape[1])), axis=0)
    angles = jnp.einsum("pt,p->tp", at, jnp.power(base, jnp.linspace(0, -1, pairs, endpoint=False)))
    angles = jnp.tile(angles, 2)[:, None]
    turned = jnp.roll(x, pairs, axis=-1) * jnp.where(jnp.arange(2 * pairs) < pairs, -1, 1)
    return x * jnp.cos(angles) + turned * jnp.sin(angles)


def picture_mask(pictures):
    """A token sees all keys up to the last of its picture, or up to itself."""
    T = len(pictures)
    places = jnp.arange(T)
    last = jnp.zeros(T + 1, int).at[pictures].max(places)  # of each picture
    return places <= jnp.where(pictures > 0, last[pictures], places)[:, None]


def text_loss(logits, token_ids, pictures):
    weights = jnp.where(pictures[1:] > 0, 0.0, 1.0)
    one_hot = jax.nn.one_hot(token_ids[1:], logits.shape[1])
    log_p = jnp.sum(one_hot * logits[:-1], axis=1) - jax.nn.logsumexp(logits[:-1], axis=1)
    return jnp.vdot(weights, -log_p) / jnp.maximum(weights.sum(), 1)
