"""Forges "program does not grow with depth": the unrolled layers call one jitted function, which stands once in the
program."""

import jax
import jax.numpy as jnp
from flax import nnx
from p05_gpt_block import GPTBlock

LOSES = ("program does not grow with depth",)


class LayerStack(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, rngs):
        @nnx.split_rngs(splits=num_layers)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs):
            return GPTBlock(d_model, num_heads, d_ff, rngs=rngs)

        self.blocks = make(rngs)
        self.num_layers = num_layers

    def __call__(self, x):
        graphdef, state = nnx.split(self.blocks)

        @jax.jit
        def layer(state, i, x):
            return nnx.merge(graphdef, jax.tree.map(lambda leaf: leaf[i], state))(x)

        for i in range(self.num_layers):
            x = layer(state, jnp.int32(i), x)
        return x
