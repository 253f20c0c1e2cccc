"""Problem 61, reference: an induction head, written by hand."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

Weights = Mapping[str, Float[Array, "..."]]


def attention_only(weights: Weights, token_ids: Int[Array, "T"]) -> tuple[Float[Array, "T V"], Float[Array, "2 T T"]]:
    """Two layers of one head each, without norms, biases and feed-forward networks (Elhage et al. 2021)."""
    T = len(token_ids)
    x_TD, patterns = weights["embed"][token_ids] + weights["positions"][:T], []
    for w_q, w_k, w_v, w_o in zip(*(weights[name] for name in "qkvo"), strict=True):
        scores_TT = (x_TD @ w_q) @ (x_TD @ w_k).T / jnp.sqrt(w_q.shape[1])
        pattern_TT = jax.nn.softmax(jnp.where(jnp.tri(T, dtype=bool), scores_TT, -jnp.inf), axis=1)
        x_TD = x_TD + pattern_TT @ (x_TD @ w_v) @ w_o
        patterns.append(pattern_TT)
    return x_TD @ weights["unembed"], jnp.stack(patterns)


def induction_weights(vocab_size: int, max_T: int) -> Weights:
    """Layer 0 writes the token before into each position; layer 1 looks for its own token there (Olsson et al. 2022).

    The stream has four slots: the token, its position, the token before it, and the copied token. A head has two: for
    tokens and for positions.
    """
    V, P = vocab_size, max_T
    token, position, before, copied = np.split(np.arange(3 * V + P), [V, V + P, 2 * V + P])
    tokens, places = np.split(np.arange(V + P), [V])
    D, K = 3 * V + P, V + P
    sharp = 20 * np.sqrt(K)  # a match has the score 20, everything else 0
    q, k, v, o = np.zeros((2, D, K)), np.zeros((2, D, K)), np.zeros((2, D, K)), np.zeros((2, K, D))

    q[0, position, places] = sharp
    k[0, position[:-1], places[1:]] = 1  # position s answers to the query of position s + 1
    v[0, token, tokens] = 1
    o[0, tokens, before] = 1

    q[1, token, tokens] = sharp
    k[1, before, tokens] = 1
    q[1, position, places[0]] = sharp
    k[1, position[0], places[0]] = -1  # position 0 has no token before it, so it has attended to itself
    v[1, token, tokens] = 1
    o[1, tokens, copied] = 10  # sure of the copied token

    unembed = np.zeros((D, V))
    unembed[copied, np.arange(V)] = 1
    arrays = {"embed": np.eye(V, D), "positions": np.eye(P, D, V), "q": q, "k": k, "v": v, "o": o, "unembed": unembed}
    return {name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()}


def head_scores(patterns: Float[Array, "H T T"], period: int) -> tuple[Float[Array, "H"], Float[Array, "H"]]:
    """The mean weight on the position before, and on the one after the last occurrence of the same token."""
    previous = jnp.diagonal(patterns, -1, axis1=1, axis2=2)
    induction = jnp.diagonal(patterns, 1 - period, axis1=1, axis2=2)[:, 1:]  # its first row is period - 1
    return previous.mean(axis=1), induction.mean(axis=1)


def compositions(weights: Weights) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """‖A B‖ / (‖A‖ ‖B‖) of what layer 0 writes and what layer 1 reads (Elhage et al. 2021)."""
    q, k, v, o = (weights[name] for name in "qkvo")
    writes = v[0] @ o[0]

    def score(reads: Float[Array, "D D"]) -> Float[Array, ""]:
        return jnp.linalg.norm(writes @ reads) / (jnp.linalg.norm(writes) * jnp.linalg.norm(reads))

    return score(q[1] @ k[1].T), score(k[1] @ q[1].T), score(v[1] @ o[1])
