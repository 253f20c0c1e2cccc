"""JAX's own attention does it all."""

import jax


def causal_attention(q, k, v):
    return jax.nn.dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
