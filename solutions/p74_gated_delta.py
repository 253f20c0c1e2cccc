"""Problem 74, reference: the gated delta rule in chunks (Yang, Kautz and Hatamizadeh 2024)."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float


def normalized(x: Float[Array, "T K"]) -> Float[Array, "T K"]:
    """Each row divided by its length. A row of zeros stays as it is."""
    return x * jax.lax.rsqrt(jnp.sum(x**2, axis=-1, keepdims=True) + 1e-6)


def delta_rule(
    q: Float[Array, "T K"],
    k: Float[Array, "T K"],
    v: Float[Array, "T M"],
    beta: Float[Array, "T"],
    log_alpha: Float[Array, "T"],
    state: Float[Array, "K M"],
    chunk: int,
) -> tuple[Float[Array, "T M"], Float[Array, "K M"]]:
    """The outputs of all positions and the state after the last one, `chunk` positions at a time."""
    T, K = q.shape
    C = min(chunk, T)

    def in_chunks(x: Array) -> Array:
        """(T, ...) to (chunks, C, ...). The zeros behind the last position neither decay the state nor write."""
        return jnp.pad(x, [(0, -T % C)] + [(0, 0)] * (x.ndim - 1)).reshape(-1, C, *x.shape[1:])

    q, k, v, beta = map(in_chunks, (normalized(q) / K**0.5, normalized(k), v, beta[:, None]))
    logs = jnp.cumsum(in_chunks(log_alpha), axis=1)
    since_border = jnp.exp(logs)[:, :, None]
    until_border = jnp.exp(logs[:, -1:] - logs)[:, :, None]
    past = jnp.tril(jnp.ones((C, C), bool))
    decay = jnp.exp(jnp.where(past, logs[:, :, None] - logs[:, None, :], -jnp.inf))

    system = beta * decay * (k @ k.mT)
    right = jnp.concatenate([beta * v, beta * since_border * k], axis=2)
    solved = solve_triangular(system, right, lower=True, unit_diagonal=True)
    new, read = solved[:, :, : v.shape[2]], solved[:, :, v.shape[2] :]

    def one_chunk(state: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        query, key, scores, new, read, decay = now
        written = new - read @ state
        return decay * state + key.T @ written, query @ state + scores @ written

    rows = (q * since_border, k * until_border, decay * (q @ k.mT), new, read, since_border[:, -1])
    state, out = jax.lax.scan(one_chunk, state, rows)
    return out.reshape(-1, v.shape[2])[:T], state
