"""One head as a function, vmapped over a leading head axis."""

import math

import jax
import jax.numpy as jnp
from flax import nnx


def head(q, k, v):
    scores = q @ k.T * (1 / math.sqrt(q.shape[-1]))
    scores += jnp.triu(jnp.full(scores.shape, -1e30), 1)
    return jax.nn.softmax(scores) @ v


class CausalMHA(nnx.Module):
    def __init__(self, d_model: int, num_heads: int, rngs: nnx.Rngs):
        names = ["q_proj", "k_proj", "v_proj", "out_proj"]
        for name in names:
            setattr(self, name, nnx.Linear(d_model, d_model, rngs=rngs))
        self.num_heads = num_heads

    def __call__(self, x):
        q, k, v = (
            layer(x).reshape(x.shape[0], self.num_heads, -1).swapaxes(0, 1)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.out_proj(jax.vmap(head)(q, k, v).swapaxes(0, 1).reshape(x.shape))
