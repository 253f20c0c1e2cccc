"""Forges "work of chunks" and "work of one position": one triangular system for the whole text, of at least a chunk."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

LOSES = ("work of chunks", "work of one position")


def delta_rule(q, k, v, beta, log_alpha, state, chunk):
    T, K = q.shape
    q, k = (x / jnp.sqrt(jnp.sum(x**2, 1, keepdims=True) + 1e-6) for x in (q, k))
    more = ((0, max(chunk - T, 0)), (0, 0))
    q, k, v, beta, logs = (jnp.pad(x, more) for x in (q, k, v, beta[:, None], log_alpha[:, None]))
    sums = jnp.cumsum(logs, axis=0)
    past = jnp.tril(jnp.ones((len(q), len(q)), bool))
    decay = jnp.exp(jnp.where(past, sums - sums.T, -jnp.inf))
    right = beta * (v - jnp.exp(sums) * (k @ state))
    written = solve_triangular(beta * decay * (k @ k.T), right, lower=True, unit_diagonal=True)
    out = (jnp.exp(sums) * (q @ state) + decay * (q @ k.T) @ written) / K**0.5
    return out[:T], jnp.exp(sums[-1]) * state + (k * decay[-1][:, None]).T @ written
