"""Problem 43, reference: attention in blocks, forward and backward (Dao et al. 2022; Dao 2023)."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def flash_attention(
    q: Float[Array, "T K"],
    k: Float[Array, "T K"],
    v: Float[Array, "T K"],
    block: int,
    causal: bool = True,
    return_lse: bool = False,
) -> Float[Array, "T K"] | tuple[Float[Array, "T K"], Float[Array, "T"]]:
    """Attention of one head, and with `return_lse` the log-sum-exp of each query's scores as well.

    No array holds the scores of more than one block of queries and one of keys.
    """
    out, lse = _attention(q, k, v, block, causal)
    return (out, lse) if return_lse else out


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _attention(q: Array, k: Array, v: Array, block: int, causal: bool) -> tuple[Array, Array]:
    """The output and the log-sum-exp."""
    return _forward(q, k, v, block, causal)[0]


def _forward(q: Array, k: Array, v: Array, block: int, causal: bool) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
    """The two outputs, and what the backward pass needs: the inputs, the output, and the log-sum-exp of each row of
    scores."""
    q_NCK, k_NCK, v_NCK = (_in_blocks(x, block) for x in (q, k, v))
    N, C, K = q_NCK.shape

    def rows(i: Array) -> tuple[Array, Array]:
        def add(j: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
            max_C, sum_C, out_CK = so_far
            scores_CC = _scores(q_NCK[i], k_NCK[j], i, j, len(q), causal)
            new_C = jnp.maximum(max_C, scores_CC.max(axis=1))
            shrink_C = jnp.exp(max_C - new_C)
            weights_CC = jnp.exp(scores_CC - new_C[:, None])
            return new_C, sum_C * shrink_C + weights_CC.sum(axis=1), out_CK * shrink_C[:, None] + weights_CC @ v_NCK[j]

        nothing = (jnp.full(C, -jnp.inf), jnp.zeros(C), jnp.zeros((C, K)))
        max_C, sum_C, out_CK = jax.lax.fori_loop(0, i + 1 if causal else N, add, nothing)
        return out_CK / sum_C[:, None], max_C + jnp.log(sum_C)

    out_NCK, lse_NC = jax.lax.map(rows, jnp.arange(N))
    out, lse = out_NCK.reshape(-1, K)[: len(q)], lse_NC.reshape(-1)[: len(q)]
    return (out, lse), (q, k, v, out, lse_NC)


def _backward(
    block: int, causal: bool, kept: tuple[Array, ...], d_outputs: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """The gradients, block by block: the weights are computed again from the scores and their log-sum-exp."""
    (q, k, v, out, lse_NC), (d_out, d_lse) = kept, d_outputs
    q_NCK, k_NCK, v_NCK, out_NCK, d_out_NCK = (_in_blocks(x, block) for x in (q, k, v, out, d_out))
    N = len(q_NCK)
    # The log-sum-exp grows by the weight of each score that grows, so its gradient is one more term of each row.
    delta_NC = jnp.sum(d_out_NCK * out_NCK, axis=2) - _in_blocks(d_lse, block)

    def columns(dq_NCK: Array, j: Array) -> tuple[Array, tuple[Array, Array]]:
        def add(i: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
            dq_NCK, dk_CK, dv_CK = so_far
            weights_CC = jnp.exp(_scores(q_NCK[i], k_NCK[j], i, j, len(q), causal) - lse_NC[i][:, None])
            d_weights_CC = d_out_NCK[i] @ v_NCK[j].T
            d_scores_CC = weights_CC * (d_weights_CC - delta_NC[i][:, None]) / jnp.sqrt(q.shape[1])
            dq_NCK = dq_NCK.at[i].add(d_scores_CC @ k_NCK[j])
            return dq_NCK, dk_CK + d_scores_CC.T @ q_NCK[i], dv_CK + weights_CC.T @ d_out_NCK[i]

        zeros_CK = jnp.zeros_like(k_NCK[0])
        dq_NCK, dk_CK, dv_CK = jax.lax.fori_loop(j if causal else 0, N, add, (dq_NCK, zeros_CK, zeros_CK))
        return dq_NCK, (dk_CK, dv_CK)

    dq_NCK, (dk_NCK, dv_NCK) = jax.lax.scan(columns, jnp.zeros_like(q_NCK), jnp.arange(N))
    dq, dk, dv = (x.reshape(-1, q.shape[1])[: len(q)] for x in (dq_NCK, dk_NCK, dv_NCK))
    return dq, dk, dv


_attention.defvjp(_forward, _backward)


def _in_blocks(x: Array, block: int) -> Array:
    """(T, ...) as (N, C, ...): N blocks of C rows. The last one is filled up with zeros."""
    return jnp.pad(x, [(0, -len(x) % block), *[(0, 0)] * (x.ndim - 1)]).reshape(-1, block, *x.shape[1:])


def _scores(q_CK: Array, k_CK: Array, i: Array, j: Array, T: int, causal: bool) -> Array:
    """The scores of query block i and key block j, -inf where the key comes after the query or is padding."""
    C, K = q_CK.shape
    t_C, s_C = i * C + jnp.arange(C), j * C + jnp.arange(C)
    visible = s_C <= t_C[:, None] if causal else s_C < T
    return jnp.where(visible, q_CK @ k_CK.T / jnp.sqrt(K), -jnp.inf)
