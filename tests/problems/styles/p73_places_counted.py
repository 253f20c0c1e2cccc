"""The place of each choice, by a cumulative sum of one-hot rows; lax.map over the tiles, which reads the matrices where
they are; weights as they are read back, token by token."""

import jax
import jax.numpy as jnp


def route(x, w, bias, k):
    score = jax.nn.sigmoid(x @ w)
    _, best = jax.lax.top_k(jax.lax.stop_gradient(score) + bias, k)
    mine = jnp.stack([score[jnp.arange(len(x)), best[:, i]] for i in range(k)], axis=1)
    return best, mine / jnp.maximum(jnp.sum(mine, axis=1), 1e-9)[:, None]


def update_bias(bias, counts, rate):
    mean = counts.sum() / len(counts)
    return bias + jnp.where(counts < mean, rate, 0) - jnp.where(counts > mean, rate, 0)


def mlp(x, w_in, w_out):
    F = len(w_out)
    hidden = x @ w_in
    return (hidden[..., :F] * jax.nn.sigmoid(hidden[..., :F]) * hidden[..., F:]) @ w_out


def moe(x, w, bias, k, w_in, w_out, shared_in, shared_out):
    T, D = x.shape
    E, rows = w.shape[1], 8
    experts, weights = route(x, w, bias, k)
    flat = experts.ravel()
    chosen = jax.nn.one_hot(flat, E, dtype=jnp.int32)
    rank = jnp.sum(jnp.cumsum(chosen, axis=0) * chosen, axis=1) - 1
    counts = chosen.sum(axis=0)
    ends = jnp.cumsum((counts + rows - 1) // rows)
    starts = ends - (counts + rows - 1) // rows
    place = rows * starts[flat] + rank
    tiles = T * k // rows + E
    expert = jnp.minimum(jnp.sum(jnp.arange(tiles)[:, None] >= ends, axis=1), E - 1)
    buffer = jnp.zeros((tiles * rows, D)).at[place].set(jnp.repeat(x, k, axis=0)).reshape(tiles, rows, D)
    results = jax.lax.map(lambda tile: mlp(tile[0], w_in[tile[1]], w_out[tile[1]]), (buffer, expert))
    read = results.reshape(tiles * rows, D)[place].reshape(T, k, D)
    return mlp(x, shared_in, shared_out) + jnp.einsum("tk,tkd->td", weights, read), counts
