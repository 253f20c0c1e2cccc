"""Forges "whole arrays": eight positions in one triangular solve, which has a row for each number of each state."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

LOSES = ("whole arrays",)


def delta_rule(q, k, v, beta, log_alpha, state, chunk):
    q, k = (x / jnp.sqrt(jnp.sum(x**2, 1, keepdims=True) + 1e-6) for x in (q, k))
    K, outs = q.shape[1], []
    for start in range(0, len(q), 8):
        q_, k_, v_, b_, a_ = (x[start : start + 8] for x in (q, k, v, beta, jnp.exp(log_alpha)))
        n, at = len(q_), jnp.arange(1, len(q_))
        step = a_[:, None, None] * (jnp.eye(K) - b_[:, None, None] * k_[:, :, None] * k_[:, None])
        added = (b_[:, None] * k_)[:, :, None] * v_[:, None]
        right = added.at[0].add(step[0] @ state).reshape(n * K, -1)
        system = jnp.eye(n * K).reshape(n, K, n, K).at[at, :, at - 1].set(-step[1:]).reshape(n * K, n * K)
        states = solve_triangular(system, right, lower=True).reshape(n, K, -1)
        outs.append(jnp.einsum("tk,tkm->tm", q_ / K**0.5, states))
        state = states[-1]
    return jnp.concatenate(outs), state
