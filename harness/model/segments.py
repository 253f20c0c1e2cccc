"""The segments of a row: several stories next to each other that do not see each other (problem 54).

Shapes: B batch, T positions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int


class Segments(NamedTuple):
    """What a model needs to know about the stories of each row."""

    ids_BT: Int[Array, "B T"]  # equal ids are next to each other; padding has an id of its own
    positions_BT: Int[Array, "B T"]  # in its segment

    @classmethod
    def of(cls, ids_BT: Int[Array, "B T"]) -> "Segments":
        """Segments whose positions count from 0."""
        return cls(ids_BT, segment_positions(ids_BT))


def segment_positions(ids_BT: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The position of each token in its segment, counted from 0."""
    places_BT = jax.lax.broadcasted_iota(jnp.int32, ids_BT.shape, 1)
    is_first_BT = jnp.pad(ids_BT[:, 1:] != ids_BT[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    return places_BT - jax.lax.cummax(jnp.where(is_first_BT, places_BT, 0), axis=1)
