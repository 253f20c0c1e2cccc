"""Problem 85: pictures. The page is in pages/p85_pictures.md."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int


def patchify(
    picture: Float[np.ndarray, "Y X C"],
    patch_size: int,
    merge: int,
) -> Float[np.ndarray, "M F"]:
    """Cuts a picture into M patches of P · P pixels, as rows of F = C · P · P
    numbers in the order (C, P, P).

    Each merge · merge patches that follow each other are a square of the picture, row
    by row. So are the squares.
    """
    raise NotImplementedError


class Projector(nnx.Module):
    """Turns each merge · merge patches that follow each other into one token of width
    D."""

    def __init__(self, patch_width: int, d_model: int, merge: int, rngs: nnx.Rngs):
        """Creates `norm`, `linear_fc1` and `linear_fc2`. `patch_width` is F."""
        raise NotImplementedError

    def __call__(self, patches: Float[Array, "M F"]) -> Float[Array, "Q D"]:
        """Returns the tokens (Q, D), with Q = M / merge², of patches (M, F)."""
        raise NotImplementedError


def layout(
    token_ids: Int[np.ndarray, "T"], placeholder: int, grids: Int[np.ndarray, "A 2"]
) -> tuple[Int[np.ndarray, "3 T"], Int[np.ndarray, "T"]]:
    """Returns the pair (positions, pictures): time, row and column of each token, and
    the number of its picture.

    `grids` has the rows and columns of tokens of each picture. The pictures count from
    1, and 0 stands for text.
    """
    raise NotImplementedError


def mixed_embeddings(
    table: Float[Array, "V D"],
    token_ids: Int[Array, "T"],
    pictures: Int[Array, "T"],
    features: Float[Array, "Q D"],
) -> Float[Array, "T D"]:
    """Returns the rows of the table for text, and the rows of `features`, in order,
    in the places of pictures."""
    raise NotImplementedError


def rotate(
    x: Float[Array, "T H K"],
    positions: Int[Array, "3 T"],
    axes: Int[Array, "K/2"],
    base: float,
) -> Float[Array, "T H K"]:
    """Rotates pair (i, i + K/2) of row t by the angle
    positions[axes[i], t] · base^(-2i/K)."""
    raise NotImplementedError


def picture_mask(pictures: Int[Array, "T"]) -> Bool[Array, "T T"]:
    """Returns whether query t sees key s: one that does not come later,
    or one of its own picture."""
    raise NotImplementedError


def text_loss(
    logits: Float[Array, "T V"],
    token_ids: Int[Array, "T"],
    pictures: Int[Array, "T"],
) -> Float[Array, ""]:
    """Returns the mean loss, in nats, of the next tokens that are
    text; 0 if there is none."""
    raise NotImplementedError
