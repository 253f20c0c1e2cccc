"""Problem 85, reference: pictures and text in one sequence, from pixels to the loss."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int


def patchify(picture: Float[np.ndarray, "Y X C"], patch_size: int, merge: int) -> Float[np.ndarray, "M F"]:
    """Patches as Qwen2-VL orders them (Wang et al. 2024): square by square, and channels first within a patch."""
    Y, X, C = picture.shape
    side = merge * patch_size
    split = picture.reshape(Y // side, merge, patch_size, X // side, merge, patch_size, C)
    return split.transpose(0, 3, 1, 4, 6, 2, 5).reshape(-1, C * patch_size * patch_size)


class Projector(nnx.Module):
    """A norm of each patch, and two layers for the patches of a square."""

    def __init__(self, patch_width: int, d_model: int, merge: int, rngs: nnx.Rngs):
        self.width = merge * merge * patch_width
        self.norm = nnx.LayerNorm(patch_width, rngs=rngs)
        self.linear_fc1 = nnx.Linear(self.width, self.width, rngs=rngs)
        self.linear_fc2 = nnx.Linear(self.width, d_model, rngs=rngs)

    def __call__(self, patches: Float[Array, "M F"]) -> Float[Array, "Q D"]:
        squares = self.norm(patches).reshape(-1, self.width)
        return self.linear_fc2(jax.nn.gelu(self.linear_fc1(squares), approximate=False))


def layout(
    token_ids: Int[np.ndarray, "T"], placeholder: int, grids: Int[np.ndarray, "A 2"]
) -> tuple[Int[np.ndarray, "3 T"], Int[np.ndarray, "T"]]:
    """Positions on three axes (M-RoPE, Wang et al. 2024), and the picture of each token."""
    T = len(token_ids)
    positions, pictures = np.zeros((3, T), np.int32), np.zeros(T, np.int32)
    t = position = number = 0
    while t < T:
        if token_ids[t] == placeholder:
            rows, columns = grids[number]
            number += 1
            row, column = np.divmod(np.arange(rows * columns), columns)
            end = t + rows * columns
            positions[:, t:end] = position + np.stack([0 * row, row, column])
            pictures[t:end] = number
            t = end
            position += max(rows, columns)
        else:
            positions[:, t] = position
            t += 1
            position += 1
    return positions, pictures


def mixed_embeddings(
    table: Float[Array, "V D"], token_ids: Int[Array, "T"], pictures: Int[Array, "T"], features: Float[Array, "Q D"]
) -> Float[Array, "T D"]:
    """Text from the table, and the next row of the features in each place of a picture."""
    is_picture = pictures > 0
    first_unused = jnp.concatenate([jnp.zeros_like(table[:1]), features])  # so that there is a row without pictures
    return jnp.where(is_picture[:, None], first_unused[jnp.cumsum(is_picture)], table[token_ids])


def rotate(
    x: Float[Array, "T H K"], positions: Int[Array, "3 T"], axes: Int[Array, "K/2"], base: float
) -> Float[Array, "T H K"]:
    """RoPE in which each pair reads its own axis."""
    P = x.shape[-1] // 2
    angles_T1P = (positions[axes].T * base ** (-jnp.arange(P) / P))[:, None, :]
    cos, sin = jnp.cos(angles_T1P), jnp.sin(angles_T1P)
    first, second = x[..., :P], x[..., P:]
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def picture_mask(pictures: Int[Array, "T"]) -> Bool[Array, "T T"]:
    """Causal, and in both directions within a picture (Gemma 3)."""
    same = (pictures[:, None] == pictures) & (pictures > 0)
    return jnp.tri(len(pictures), dtype=bool) | same


def text_loss(logits: Float[Array, "T V"], token_ids: Int[Array, "T"], pictures: Int[Array, "T"]) -> Float[Array, ""]:
    """The loss of the next token, where that token is text."""
    is_text = pictures[1:] == 0
    log_p = jnp.take_along_axis(jax.nn.log_softmax(logits[:-1]), token_ids[1:, None], axis=1)[:, 0]
    return -jnp.sum(log_p * is_text) / jnp.maximum(jnp.sum(is_text), 1)
