"""Problem 43, reference: attention in blocks, forward and backward (Dao et al. 2022; Dao 2023)."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def flash_attention(
    q: Float[Array, "T K"], k: Float[Array, "T K"], v: Float[Array, "T K"], block: int
) -> Float[Array, "T K"]:
    """Causal attention of one head. No array holds the scores of more than one block of queries and one of keys."""
    return _forward(q, k, v, block)[0]


def _forward(q: Array, k: Array, v: Array, block: int) -> tuple[Array, tuple[Array, ...]]:
    """The output, and what the backward pass needs: the inputs, the output, and the log-sum-exp of each row of scores."""
    q_NCK, k_NCK, v_NCK = (_in_blocks(x, block) for x in (q, k, v))
    C, K = block, q.shape[1]

    def rows(i: Array) -> tuple[Array, Array]:
        def add(j: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
            max_C, sum_C, out_CK = so_far
            scores_CC = _scores(q_NCK[i], k_NCK[j], i, j)
            new_C = jnp.maximum(max_C, scores_CC.max(axis=1))
            shrink_C = jnp.exp(max_C - new_C)
            weights_CC = jnp.exp(scores_CC - new_C[:, None])
            return new_C, sum_C * shrink_C + weights_CC.sum(axis=1), out_CK * shrink_C[:, None] + weights_CC @ v_NCK[j]

        nothing = (jnp.full(C, -jnp.inf), jnp.zeros(C), jnp.zeros((C, K)))
        max_C, sum_C, out_CK = jax.lax.fori_loop(0, i + 1, add, nothing)
        return out_CK / sum_C[:, None], max_C + jnp.log(sum_C)

    out_NCK, lse_NC = jax.lax.map(rows, jnp.arange(len(q_NCK)))
    out = out_NCK.reshape(-1, K)[: len(q)]
    return out, (q, k, v, out, lse_NC)


def _backward(block: int, kept: tuple[Array, ...], d_out: Array) -> tuple[Array, Array, Array]:
    """The gradients, block by block: the weights are computed again from the scores and their log-sum-exp."""
    q, k, v, out, lse_NC = kept
    q_NCK, k_NCK, v_NCK, out_NCK, d_out_NCK = (_in_blocks(x, block) for x in (q, k, v, out, d_out))
    delta_NC = jnp.sum(d_out_NCK * out_NCK, axis=2)

    def columns(dq_NCK: Array, j: Array) -> tuple[Array, tuple[Array, Array]]:
        def add(i: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
            dq_NCK, dk_CK, dv_CK = so_far
            weights_CC = jnp.exp(_scores(q_NCK[i], k_NCK[j], i, j) - lse_NC[i][:, None])
            d_weights_CC = d_out_NCK[i] @ v_NCK[j].T
            d_scores_CC = weights_CC * (d_weights_CC - delta_NC[i][:, None]) / jnp.sqrt(q.shape[1])
            dq_NCK = dq_NCK.at[i].add(d_scores_CC @ k_NCK[j])
            return dq_NCK, dk_CK + d_scores_CC.T @ q_NCK[i], dv_CK + weights_CC.T @ d_out_NCK[i]

        zeros_CK = jnp.zeros_like(k_NCK[0])
        dq_NCK, dk_CK, dv_CK = jax.lax.fori_loop(j, len(q_NCK), add, (dq_NCK, zeros_CK, zeros_CK))
        return dq_NCK, (dk_CK, dv_CK)

    dq_NCK, (dk_NCK, dv_NCK) = jax.lax.scan(columns, jnp.zeros_like(q_NCK), jnp.arange(len(q_NCK)))
    dq, dk, dv = (x.reshape(-1, q.shape[1])[: len(q)] for x in (dq_NCK, dk_NCK, dv_NCK))
    return dq, dk, dv


flash_attention.defvjp(_forward, _backward)


def _in_blocks(x: Array, block: int) -> Array:
    """(T, K) as (N, C, K): N blocks of C rows. The last one is filled up with zeros."""
    return jnp.pad(x, ((0, -len(x) % block), (0, 0))).reshape(-1, block, x.shape[1])


def _scores(q_CK: Array, k_CK: Array, i: Array, j: Array) -> Array:
    """The scores of query block i and key block j, -inf where the key comes after the query."""
    C, K = q_CK.shape
    t_C, s_C = i * C + jnp.arange(C), j * C + jnp.arange(C)
    return jnp.where(s_C <= t_C[:, None], q_CK @ k_CK.T / jnp.sqrt(K), -jnp.inf)
