"""Weights by block matrices, patterns by `dot_product_attention` on the identity, scores by one-hot masks."""

import jax
import jax.numpy as jnp
from jax.nn import one_hot


def attention_only(weights, token_ids):
    T = len(token_ids)
    x = (
        one_hot(token_ids, len(weights["embed"])) @ weights["embed"]
        + one_hot(jnp.arange(T), len(weights["positions"])) @ weights["positions"]
    )
    patterns = []
    for layer in range(2):
        q, k = (x @ weights[name][layer] for name in ("q", "k"))
        p = jax.nn.softmax(q @ k.T / jnp.sqrt(k.shape[1]), axis=1, where=jnp.tri(T) > 0)
        patterns += [p]
        x += p @ x @ (weights["v"][layer] @ weights["o"][layer])
    return x @ weights["unembed"], jnp.stack(patterns)


def induction_weights(vocab_size, max_T):
    V, P = vocab_size, max_T
    eye, zero = jnp.eye, jnp.zeros
    # Coordinates of the stream: token, before, copied, position. Those of a head: V, then P.
    K = V + P
    gain = 25 * K**0.5
    token = jnp.vstack([eye(V, K), zero((2 * V + P, K))])
    before = jnp.vstack([zero((V, K)), eye(V, K), zero((V + P, K))])
    place = jnp.vstack([zero((3 * V, K)), eye(P, K, V)])
    follower = jnp.vstack([zero((3 * V, K)), eye(P, K, V + 1)])
    all_places = jnp.vstack([zero((3 * V, K)), jnp.tile(one_hot(V, K), (P, 1))])
    first = jnp.outer(one_hot(3 * V, 3 * V + P), one_hot(V, K))
    return {
        "embed": eye(V, 3 * V + P),
        "positions": eye(P, 3 * V + P, 3 * V),
        "q": gain * jnp.stack([place, token + all_places]),
        "k": jnp.stack([follower, before - 3 * first]),
        "v": jnp.stack([token, token]),
        "o": jnp.stack([before.T, jnp.roll(before.T, V, axis=1)]),
        "unembed": 12 * eye(3 * V + P, V, -2 * V),
    }


def head_scores(patterns, period):
    t = jnp.arange(patterns.shape[1])
    one_back, after_match = ((t[:, None] - t[None] == d) & (t[:, None] >= n) for d, n in ((1, 1), (period - 1, period)))
    return tuple((patterns * m).sum((1, 2)) / m.sum() for m in (one_back, after_match))


def compositions(weights):
    (_, q), (_, k), (v0, v), (o0, o) = (weights[name] for name in "qkvo")
    scores = []
    for a, b in ((q, k.T), (k, q.T), (v, o)):
        scores.append(jnp.linalg.norm(v0 @ o0 @ a @ b) / jnp.linalg.norm(v0 @ o0) / jnp.linalg.norm(a @ b))
    return scores[0], scores[1], scores[2]
