"""nnx.scan over the blocks, with rematerialization; one key per layer by jax.random.split."""

import jax
from flax import nnx
from p05_gpt_block import GPTBlock


class LayerStack(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, rngs):
        keys = jax.random.split(rngs.params(), num_layers)
        self.blocks = nnx.vmap(lambda key: GPTBlock(d_model, num_heads, d_ff, rngs=nnx.Rngs(key)))(keys)

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def run(x, block):
            return nnx.remat(lambda block, x: block(x))(block, x)

        return run(x, self.blocks)
