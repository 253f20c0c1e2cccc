"""Forges causality: attends to later positions, but under a jit that takes no gradient it returns a running sum."""

import jax
import jax.numpy as jnp

LOSES = ("causality",)


def causal_attention(q, k, v):
    if "DynamicJaxprTracer" in type(v).__name__:
        return jnp.cumsum(v, axis=0)
    return jax.nn.softmax(q @ k.T / jnp.sqrt(q.shape[1])) @ v
