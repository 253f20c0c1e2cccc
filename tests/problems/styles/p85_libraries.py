"""Everything that libraries have: windows of NumPy, masks of Flax, the loss of optax, and places that argsort finds."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


def patchify(picture, patch_size, merge):
    windows = np.lib.stride_tricks.sliding_window_view(picture, (patch_size, patch_size), axis=(0, 1))
    grid = windows[::patch_size, ::patch_size]  # (rows, columns, C, P, P)
    squares = [np.hsplit(band, grid.shape[1] // merge) for band in np.vsplit(grid, grid.shape[0] // merge)]
    flat = [square.reshape(merge * merge, -1) for square in itertools.chain.from_iterable(squares)]
    return np.concatenate(flat)


class Projector(nnx.Module):
    def __init__(self, patch_width, d_model, merge, rngs):
        self.merge = merge
        self.norm = nnx.LayerNorm(patch_width, rngs=rngs, use_fast_variance=False)
        inner = merge * merge * patch_width
        self.linear_fc1, self.linear_fc2 = nnx.Linear(inner, inner, rngs=rngs), nnx.Linear(inner, d_model, rngs=rngs)

    def __call__(self, patches):
        squares = jnp.split(self.norm(patches), len(patches) // self.merge**2)
        x = self.linear_fc1(jnp.stack(squares).reshape(len(squares), -1))
        return self.linear_fc2(x * jax.scipy.stats.norm.cdf(x))


def layout(token_ids, placeholder, grids):
    text = np.asarray(token_ids) != placeholder
    counts = grids.prod(axis=1)
    pictures = np.zeros(len(token_ids), np.int32)
    pictures[~text] = np.repeat(np.arange(1, len(grids) + 1), counts)
    # How many positions the tokens before use: one for each of text, and the longer side for each picture before.
    steps = text.astype(np.int32)
    firsts = np.flatnonzero(~text)[np.cumsum(counts) - counts] if len(grids) else []
    begins = np.cumsum(steps) - steps
    for first, (rows, columns), count in zip(firsts, grids, counts, strict=True):
        begins[first + count :] += max(rows, columns)
    grid = np.zeros((2, len(token_ids)), np.int32)
    if len(grids):
        grid[:, ~text] = np.concatenate([np.indices(tuple(shape)).reshape(2, -1) for shape in grids], axis=1)
    return np.vstack([begins, begins + grid]).astype(np.int32), pictures


def mixed_embeddings(table, token_ids, pictures, features):
    known = jnp.where(pictures == 0, token_ids, 0)
    out = jnp.take(table, known, axis=0)
    if not features.shape[0]:
        return out
    places = jnp.argsort(pictures == 0, stable=True)[: len(features)]
    return out.at[places].set(features)


def rotate(x, positions, axes, base):
    pairs = len(axes)
    chosen = jax.nn.one_hot(axes, 3).T  # (3, K/2)
    frequencies = jnp.exp(-jnp.log(base) * 2 * jnp.arange(pairs) / (2 * pairs))
    turn = jnp.exp(1j * (positions.T.astype(jnp.float32) @ chosen) * frequencies)
    turned = (x[..., :pairs] + 1j * x[..., pairs:]) * turn[:, None]
    return jnp.concatenate([turned.real, turned.imag], axis=-1)


def picture_mask(pictures):
    causal = nnx.make_causal_mask(pictures, dtype=bool)[0]
    own = nnx.make_attention_mask(pictures, pictures, jnp.equal, dtype=bool)[0]
    is_picture = nnx.make_attention_mask(pictures > 0, pictures > 0, jnp.logical_and, dtype=bool)[0]
    return causal | (own & is_picture)


def text_loss(logits, token_ids, pictures):
    counts = jnp.append(pictures[1:] == 0, False)
    targets = jnp.where(counts, jnp.roll(token_ids, -1), 0)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return jnp.where(counts.any(), jnp.mean(losses, where=counts), 0.0)
