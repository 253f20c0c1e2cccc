"""Uses einsum, and -inf instead of -1e9."""

import jax
import jax.numpy as jnp


def causal_attention(q, k, v):
    t, d = q.shape
    logits = jnp.einsum("td,sd->ts", q * d**-0.5, k)
    logits = jnp.where(jnp.arange(t)[:, None] >= jnp.arange(t)[None, :], logits, -jnp.inf)
    return jnp.einsum("ts,sd->td", jnp.exp(jax.nn.log_softmax(logits)), v)
