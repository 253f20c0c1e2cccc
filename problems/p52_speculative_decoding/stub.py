"""Problem 52: speculative decoding.

The page is in pages/p52_speculative_decoding.md.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def acceptance_probabilities(
    target: Float[Array, "N+1 V"], draft: Float[Array, "N V"], drafted: Int[Array, "N"]
) -> Float[Array, "N"]:
    """The probability with which each drafted token is accepted, if those before it
    were.

    target, draft: the distributions of the two models, (N + 1, V) and (N, V). drafted:
    (N,). The tokens that were drawn from the rows of `draft`.
    """
    raise NotImplementedError


def residual_distribution(
    target_row: Float[Array, "V"],
    draft_row: Float[Array, "V"],
) -> Float[Array, "V"]:
    """The distribution to draw from instead of a rejected token. That of the
    target if the two are equal."""
    raise NotImplementedError


def speculative_step(
    target: Float[Array, "N+1 V"],
    draft: Float[Array, "N V"],
    drafted: Int[Array, "N"],
    uniforms: Float[Array, "N+1"],
) -> tuple[Int[Array, "N+1"], Int[Array, ""]]:
    """The pair (emitted tokens, then -1; how many are emitted, from 1 to N + 1).

    uniforms: (N + 1,). The first N decide which tokens are accepted. The last one
    draws the token after them.
    """
    raise NotImplementedError
