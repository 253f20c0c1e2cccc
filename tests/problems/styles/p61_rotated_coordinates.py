"""Slots of other sizes for each head, then a random rotation of the stream, so that no coordinate means anything."""

import jax
import jax.numpy as jnp


def attention_only(weights, token_ids):
    x = weights["embed"][token_ids] + weights["positions"][: token_ids.shape[0]]
    future = jnp.triu(jnp.ones((x.shape[0],) * 2, bool), 1)

    def layer(x, w):
        q, k, v = (jnp.einsum("td,dk->tk", x, w[name]) for name in "qkv")
        pattern = jax.nn.softmax(jnp.where(future, -1e9, jnp.einsum("tk,sk->ts", q, k) * k.shape[-1] ** -0.5))
        return x + jnp.einsum("ts,sk,kd->td", pattern, v, w["o"]), pattern

    x, patterns = jax.lax.scan(layer, x, {name: weights[name] for name in "qkvo"})
    return jnp.einsum("td,dv->tv", x, weights["unembed"]), patterns


def induction_weights(vocab_size, max_T):
    V, P = vocab_size, max_T
    D = P + 3 * V
    turn, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(1), (D, D)))
    spin, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(2), (P + V, P + V)))
    out, old, new, where = (jnp.eye(D)[a:b] for a, b in ((0, V), (V, 2 * V), (2 * V, 3 * V), (3 * V, D)))
    wide = jnp.eye(P + V)
    back = where.T @ jnp.roll(wide, -1, axis=0)[:P]
    zero = jnp.zeros((D, P + V))
    q = jnp.stack([where.T @ wide[:P] * 400, new.T @ wide[:V] * 300 + where.T @ jnp.outer(jnp.ones(P), wide[V]) * 300])
    k = jnp.stack([back, old.T @ wide[:V] - zero.at[3 * V, V].set(2.0)])
    # The query of position t has a 1 in coordinate t, the key of position s in coordinate s + 1.
    v = jnp.stack([new.T @ wide[:V]] * 2)
    o = jnp.stack([wide[:V].T @ old, 8 * wide[:V].T @ out])
    return {
        "embed": new @ turn,
        "positions": where @ turn,
        "q": turn.T @ q @ spin,
        "k": turn.T @ k @ spin,
        "v": turn.T @ v @ spin,
        "o": spin.T @ o @ turn,
        "unembed": turn.T @ out.T * 2,
    }


def head_scores(patterns, period):
    T = patterns.shape[-1]
    t = jnp.arange(1, T)
    s = jnp.arange(period, T)
    return jnp.mean(patterns[:, t, t - 1], axis=-1), jnp.mean(patterns[:, s, s - period + 1], axis=-1)


def compositions(weights):
    q, k, v, o = (weights[name] for name in "qkvo")
    w = v[0] @ o[0]
    found = []
    for r in (q[1] @ k[1].T, k[1] @ q[1].T, v[1] @ o[1]):
        found.append(jnp.sqrt(jnp.sum((w @ r) ** 2) / jnp.sum(w**2) / jnp.sum(r**2)))
    return tuple(found)
