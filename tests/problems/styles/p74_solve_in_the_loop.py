"""One scan over the chunks, which solves for what is written when the state is known; transposed, positions last."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


def delta_rule(q, k, v, beta, log_alpha, state, chunk):
    (K, T), C = q.T.shape, min(chunk, len(q))

    def columns(x):  # zeros behind the text neither write nor forget
        return jnp.moveaxis(jnp.pad(x, ((0, 0), (0, -T % C))).reshape(len(x), -1, C), 1, 0)

    def unit(x):
        return x.T * (jnp.sum(x.T**2, axis=0) + 1e-6) ** -0.5

    def turn(state, now):  # state (M, K)
        q, k, v, beta, logs = now
        sums = jnp.cumsum(logs[0])
        later = jnp.triu(jnp.ones((C, C), bool))
        decay = jnp.exp(jnp.where(later, sums - sums[:, None], -1e4))  # from row to column
        overlap = jnp.triu(decay * (k.T @ k) * beta, 1)
        right = beta * (v - jnp.exp(sums) * (state @ k))
        written = solve_triangular(overlap.T + jnp.eye(C), right.T, lower=True).T
        out = jnp.exp(sums) * (state @ q) + written @ (decay * (k.T @ q))
        return jnp.exp(sums[-1]) * state + (written * decay[:, -1]) @ k.T, out

    rows = unit(q) / K**0.5, unit(k), v.T, beta[None], log_alpha[None]
    state, out = jax.lax.scan(turn, state.T, tuple(map(columns, rows)))
    return jnp.moveaxis(out, 0, 1).reshape(-1, out.shape[0] * C)[:, :T].T, state.T
