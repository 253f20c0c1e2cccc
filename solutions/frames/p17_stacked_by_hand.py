"""Layers built one by one, then stacked by jax.tree.map; a fori_loop runs them (JAX differentiates it as a scan)."""

import jax
import jax.numpy as jnp
from flax import nnx
from p05_gpt_block import GPTBlock


class LayerStack(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, rngs):
        made = [nnx.split(GPTBlock(d_model, num_heads, d_ff, rngs=rngs)) for _ in range(num_layers)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[state for _, state in made])
        self.blocks = nnx.merge(made[0][0], stacked)
        self.num_layers = num_layers

    def __call__(self, x):
        structure, state = nnx.split(self.blocks)

        def turn(i, x):
            return nnx.merge(structure, jax.tree.map(lambda leaf: leaf[i], state))(x)

        return jax.lax.fori_loop(0, self.num_layers, turn, x)
