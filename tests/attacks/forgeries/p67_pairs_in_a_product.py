"""Forges "work of a scan": all pairs of positions in one matrix product for each number of the state."""

import jax.numpy as jnp

LOSES = ("work of a scan",)


def selective_scan(u, dt, a, b, c, state):
    T = len(u)
    sums = jnp.cumsum(dt[:, :, None] * a, axis=0)
    past = jnp.tril(jnp.ones((T, T), bool))[:, :, None, None]
    weights = jnp.exp(jnp.where(past, sums[:, None] - sums, -jnp.inf))
    h = jnp.einsum("tsdn,sdn->tdn", weights, (dt * u)[:, :, None] * b[:, None]) + jnp.exp(sums) * state
    return jnp.einsum("tdn,tn->td", h, c), h[-1]
