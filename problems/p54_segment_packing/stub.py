"""Problem 54: whole stories in rows. The page is in pages/p54_segment_packing.md."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


def pack_stories(
    stories: Sequence[Int[np.ndarray, "N"]], context: int, pad_id: int
) -> tuple[Int[np.ndarray, "R T"], Int[np.ndarray, "R T"]]:
    """Rows of `context` tokens and their segment ids, (R, T) each. A story is placed in
    the first row with room for it.

    Segments are numbered from 1 in each row. Padding has the segment id 0.
    """
    raise NotImplementedError


def segment_positions(segment_ids: Int[Array, "T"]) -> Int[Array, "T"]:
    """The position of each token in its segment, (T,), counted from 0."""
    raise NotImplementedError


def segment_mask(segment_ids: Int[Array, "T"]) -> Bool[Array, "T T"]:
    """Whether query t sees key s, at (t, s): (T, T)."""
    raise NotImplementedError


def segment_targets(
    token_ids: Int[Array, "T"],
    segment_ids: Int[Array, "T"],
) -> Int[Array, "T"]:
    """What each token predicts, (T,): the next token of its story, or -1 if there is
    none."""
    raise NotImplementedError


def segment_attention(
    q: Float[Array, "T K"],
    k: Float[Array, "T K"],
    v: Float[Array, "T K"],
    segment_ids: Int[Array, "T"],
    block: int,
) -> Float[Array, "T K"]:
    """Attention of one head within segments, (T, K), in blocks of
    `block` queries and keys.

    Computes no pair of blocks that have no segment in common.
    """
    raise NotImplementedError
