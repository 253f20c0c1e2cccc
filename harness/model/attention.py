"""Causal attention that keeps no `(T, S)` array for the backward pass.

The backward pass recomputes the weights from q, k, v, the output and the log-sum-exp (Dao et al. 2022, algorithm 4, without
tiles). On a GPU in bfloat16, cuDNN's fused kernel is used instead.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def causal_attention(
    q_BTHK: Float[Array, "B T H K"], k_BTHK: Float[Array, "B T H K"], v_BTHK: Float[Array, "B T H K"]
) -> Float[Array, "B T H K"]:
    """`softmax(q kᵀ / √K + mask) v` for each head. No position attends to a later one."""
    if jax.default_backend() == "gpu" and q_BTHK.dtype == jnp.bfloat16:
        return jax.nn.dot_product_attention(q_BTHK, k_BTHK, v_BTHK, is_causal=True, implementation="cudnn")
    heads_first = (a.swapaxes(1, 2) for a in (q_BTHK, k_BTHK, v_BTHK))
    return _attention(*heads_first).swapaxes(1, 2)


@jax.custom_vjp
def _attention(q_BHTK: Array, k_BHTK: Array, v_BHTK: Array) -> Array:
    return _forward(q_BHTK, k_BHTK, v_BHTK)[0]


def _scores(q_BHTK: Array, k_BHTK: Array) -> Array:
    """Masked scores in float32, with minus infinity at later positions."""
    T, K = q_BHTK.shape[2:]
    scores_BHTS = jnp.einsum("bhtk,bhsk->bhts", q_BHTK, k_BHTK, preferred_element_type=jnp.float32) * K**-0.5
    later_TS = jnp.arange(T)[None, :] > jnp.arange(T)[:, None]
    return jnp.where(later_TS, -jnp.inf, scores_BHTS)


def _forward(q: Array, k: Array, v: Array) -> tuple[Array, tuple[Array, ...]]:
    scores_BHTS = _scores(q, k)
    max_BHT1 = scores_BHTS.max(-1, keepdims=True)
    exps_BHTS = jnp.exp(scores_BHTS - max_BHT1)
    total_BHT1 = exps_BHTS.sum(-1, keepdims=True)
    mixed_BHTK = jnp.einsum("bhts,bhsk->bhtk", exps_BHTS.astype(v.dtype), v, preferred_element_type=jnp.float32)
    out_BHTK = (mixed_BHTK / total_BHT1).astype(v.dtype)
    return out_BHTK, (q, k, v, out_BHTK, jnp.log(total_BHT1) + max_BHT1)


def _backward(residuals: tuple[Array, ...], dout_BHTK: Array) -> tuple[Array, ...]:
    q, k, v, out_BHTK, log_sum_BHT1 = residuals
    f32 = jnp.float32
    weights_BHTS = jnp.exp(_scores(q, k) - log_sum_BHT1)
    dv = jnp.einsum("bhts,bhtk->bhsk", weights_BHTS.astype(v.dtype), dout_BHTK, preferred_element_type=f32)
    dweights_BHTS = jnp.einsum("bhtk,bhsk->bhts", dout_BHTK, v, preferred_element_type=f32)
    shared_BHT1 = jnp.sum(dout_BHTK.astype(f32) * out_BHTK.astype(f32), -1, keepdims=True)
    dscores_BHTS = (weights_BHTS * (dweights_BHTS - shared_BHT1) * q.shape[-1] ** -0.5).astype(q.dtype)
    dq = jnp.einsum("bhts,bhsk->bhtk", dscores_BHTS, k, preferred_element_type=f32)
    dk = jnp.einsum("bhts,bhtk->bhsk", dscores_BHTS, q, preferred_element_type=f32)
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype)


_attention.defvjp(_forward, _backward)
