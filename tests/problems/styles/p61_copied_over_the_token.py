"""The copied token goes into the token's own coordinates; position 0 is marked by its embedding."""

import jax
import jax.numpy as jnp
import numpy as np


def attend(x, q, k, v, o):
    T, K = x.shape[0], q.shape[1]
    weights = jnp.exp((x @ q) @ (x @ k).T / K**0.5 - 1e9 * (1 - jnp.tri(T)))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights, weights @ x @ v @ o


def attention_only(weights, token_ids):
    x = jnp.take(weights["embed"], token_ids, axis=0) + weights["positions"][jnp.arange(len(token_ids))]
    first, y = attend(x, *(weights[name][0] for name in "qkvo"))
    x = x + y
    second, y = attend(x, *(weights[name][1] for name in "qkvo"))
    return (x + y) @ weights["unembed"], jnp.array([first, second])


def induction_weights(vocab_size, max_T):
    V, P = vocab_size, max_T
    K = max(V + 1, P)
    D = 2 * V + P + 1
    q, k, v = (np.zeros((2, D, K), np.float32) for _ in range(3))
    o, embed, positions = np.zeros((2, K, D)), np.zeros((V, D)), np.zeros((P, D))
    for token in range(V):
        embed[token, token] = 1
        v[0, token, token] = v[1, token, token] = 1
        o[0, token, V + token] = 1
        o[1, token, token] = 30
        q[1, token, token] = 15 * K**0.5
        k[1, V + token, token] = 1
    for t in range(P):
        positions[t, 2 * V + t] = 1
        positions[t, -1] = 1
        q[0, 2 * V + t, t] = 15 * K**0.5
        if t + 1 < P:
            k[0, 2 * V + t, t + 1] = 1
    q[1, -1, V] = 15 * K**0.5
    k[1, 2 * V, V] = -1.5
    return dict(embed=embed, positions=positions, q=q, k=k, v=v, o=o, unembed=np.eye(D, V))


def head_scores(patterns, period):
    previous = jax.vmap(lambda p: jnp.trace(p[1:, :-1]) / (len(p) - 1))(patterns)
    rows = patterns[:, period:, 1:]
    return previous, jnp.trace(rows, axis1=1, axis2=2) / rows.shape[1]


def compositions(weights):
    w = weights["v"][0] @ weights["o"][0]
    qk = weights["q"][1] @ weights["k"][1].T

    def size(m):
        return jnp.linalg.norm(m, "fro")

    return tuple(size(w @ r) / size(w) / size(r) for r in (qk, qk.T, weights["v"][1] @ weights["o"][1]))
