"""Problem 67: a selective state space. The page is in pages/p67_state_space.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, PyTree


def selective_scan(
    u: Float[Array, "T D"],
    dt: Float[Array, "T D"],
    a: Float[Array, "D N"],
    b: Float[Array, "T N"],
    c: Float[Array, "T N"],
    state: Float[Array, "D N"],
) -> tuple[Float[Array, "T D"], Float[Array, "D N"]]:
    """The pair (y, state): the outputs of all positions, and the
    state after the last one.

    Before the first position, the state is `state`. All positions are computed
    together.
    """
    raise NotImplementedError


class SelectiveSSM(nnx.Module):
    """A layer that mixes positions by a state of fixed size, which each
    token decides how to change."""

    def __init__(self, d_model: int, d_state: int, rngs: nnx.Rngs):
        """Creates `in_proj`, `bc_proj`, `dt_proj` and `out_proj`, and the parameters
        `a_log` (D, N) and `skip` (D,)."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Returns (T, D) for x (T, D). The state before the first position is 0."""
        raise NotImplementedError

    def empty_cache(self, context: int) -> PyTree[Array]:
        """What is known before the first of `context` positions."""
        raise NotImplementedError

    def extend(
        self,
        cache: PyTree[Array],
        x: Float[Array, "T D"],
    ) -> tuple[Float[Array, "T D"], PyTree[Array]]:
        """The outputs (T, D) for the next T positions, whose inputs are x (T, D),
        and the cache after them."""
        raise NotImplementedError

    def decode_step(
        self,
        cache: PyTree[Array],
        x: Float[Array, "D"],
    ) -> tuple[Float[Array, "D"], PyTree[Array]]:
        """The output (D,) for the next position, whose input is x
        (D,), and the cache after it."""
        raise NotImplementedError
