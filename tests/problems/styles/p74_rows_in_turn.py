"""All chunks together, and in each the rows of the system one after another, as kernels without a solver do; a text of
one position takes the recurrence."""

import jax
import jax.numpy as jnp


def delta_rule(q, k, v, beta, log_alpha, state, chunk):
    T, K = q.shape
    q = q / jnp.sqrt(jnp.sum(q * q, 1, keepdims=True) + 1e-6) / jnp.sqrt(K)
    k = k / jnp.sqrt(jnp.sum(k * k, 1, keepdims=True) + 1e-6)
    if T == 1:
        state = jnp.exp(log_alpha[0]) * state
        state = state + beta[0] * jnp.outer(k[0], v[0] - k[0] @ state)
        return (q[0] @ state)[None], state
    chunk = min(chunk, T)
    chunks = -(-T // chunk)

    def split(x):
        whole = jnp.zeros((chunks * chunk, *x.shape[1:])).at[:T].set(x)
        return whole.reshape(chunks, chunk, *x.shape[1:])

    q, k, v, beta, logs = map(split, (q, k, v, beta, log_alpha))
    sums = jnp.cumsum(logs, axis=-1)
    past = jnp.tril(jnp.ones((chunk, chunk)))
    decay = jnp.exp((sums[..., :, None] - sums[..., None, :]) * past) * past
    A = jnp.einsum("ni,nij,nik,njk->nij", beta, decay, k, k) * jnp.tril(past, -1)

    def row(i, inverse):
        new = -jnp.einsum("nj,njm->nm", A[:, i], inverse)
        return inverse.at[:, i].add(new)

    inverse = jax.lax.fori_loop(1, chunk, row, jnp.broadcast_to(jnp.eye(chunk), A.shape))
    values = jnp.einsum("nij,nj,njm->nim", inverse, beta, v)
    keys = jnp.einsum("nij,nj,nj,njk->nik", inverse, beta, jnp.exp(sums), k)

    def turn(state, now):
        q, k, values, keys, decay, sums = now
        written = values - keys @ state
        out = jnp.exp(sums)[:, None] * (q @ state) + (q @ k.T * decay) @ written
        return jnp.exp(sums[-1]) * state + jnp.einsum("jk,j,jm->km", k, decay[-1], written), out

    state, out = jax.lax.scan(turn, state, (q, k, values, keys, decay, sums))
    return out.reshape(chunks * chunk, -1)[:T], state
