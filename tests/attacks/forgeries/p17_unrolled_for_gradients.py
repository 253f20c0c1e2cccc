"""Forges "program does not grow with depth": a loop of JAX where no gradient is taken, and unrolled layers where one
is."""

import jax
from flax import nnx

LOSES = ("program of the gradients does not grow with depth",)


class Block(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, rngs):
        self.num_heads = num_heads
        self.ln1, self.ln2 = nnx.LayerNorm(d_model, rngs=rngs), nnx.LayerNorm(d_model, rngs=rngs)
        self.attn = nnx.Module()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self.attn, name, nnx.Linear(d_model, d_model, rngs=rngs))
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, x):
        attn, normal, heads = self.attn, self.ln1(x), (len(x), self.num_heads, -1)
        q, k, v = (layer(normal).reshape(heads) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        x = x + attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
        return x + self.ff2(nnx.relu(self.ff1(self.ln2(x))))


class LayerStack(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, num_layers, rngs):
        make = nnx.vmap(lambda rngs: Block(d_model, num_heads, d_ff, rngs), in_axes=0, out_axes=0)
        self.blocks = nnx.split_rngs(splits=num_layers)(make)(rngs)

    def __call__(self, x):
        graphdef, state = nnx.split(self.blocks)
        depth = len(jax.tree.leaves(state)[0])

        def unrolled(state, x):
            for i in range(depth):
                x = nnx.merge(graphdef, jax.tree.map(lambda leaf, i=i: leaf[i], state))(x)
            return x

        @jax.custom_vjp
        def stack(state, x):
            return jax.lax.scan(lambda x, layer: (nnx.merge(graphdef, layer)(x), None), x, state)[0]

        stack.defvjp(lambda *both: jax.vjp(unrolled, *both), lambda back, slope: back(slope))
        return stack(state, x)
