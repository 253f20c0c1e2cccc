"""Problem 52, reference: speculative decoding."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def acceptance_probabilities(
    target: Float[Array, "N+1 V"], draft: Float[Array, "N V"], drafted: Int[Array, "N"]
) -> Float[Array, "N"]:
    """min(1, p / q) for each drafted token (Leviathan, Kalman and Matias 2023, section 2.3)."""
    positions = jnp.arange(len(drafted))
    return jnp.minimum(1.0, target[positions, drafted] / draft[positions, drafted])


def residual_distribution(target_row: Float[Array, "V"], draft_row: Float[Array, "V"]) -> Float[Array, "V"]:
    """What the target gives and the draft does not, normalized. The target if nothing is left."""
    missing = jnp.maximum(target_row - draft_row, 0.0)
    total = jnp.sum(missing)
    return jnp.where(total > 0, missing / jnp.where(total > 0, total, 1.0), target_row)


def draw(distribution: Float[Array, "V"], uniform: Float[Array, ""]) -> Int[Array, ""]:
    """The first possible token whose cumulative sum is greater than `uniform`. The last one if rounding keeps all sums
    below."""
    possible = distribution > 0
    reached = possible & (jnp.cumsum(distribution) > uniform)
    last_possible = len(distribution) - 1 - jnp.argmax(possible[::-1])
    return jnp.where(jnp.any(reached), jnp.argmax(reached), last_possible)


def speculative_step(
    target: Float[Array, "N+1 V"], draft: Float[Array, "N V"], drafted: Int[Array, "N"], uniforms: Float[Array, "N+1"]
) -> tuple[Int[Array, "N+1"], Int[Array, ""]]:
    """The accepted tokens and one more: from the residual distribution after a rejection, else from the target."""
    N = len(drafted)
    accepted = uniforms[:N] < acceptance_probabilities(target, draft, drafted)
    count = jnp.sum(jnp.cumprod(accepted.astype(jnp.int32)))
    residual = residual_distribution(target[count], draft[jnp.minimum(count, N - 1)])
    last = jnp.where(count < N, residual, target[N])
    drawn = draw(last, uniforms[N])
    places = jnp.arange(N + 1)
    tokens = jnp.where(places < count, jnp.append(drafted, -1), -1)
    return jnp.where(places == count, drawn, tokens).astype(jnp.int32), (count + 1).astype(jnp.int32)
