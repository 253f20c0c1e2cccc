"""Forges "layers initialized differently": in a stack of more than eight layers, all of them start alike."""

import jax
from flax import nnx

LOSES = ("layers initialized differently",)


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
        if num_layers > 8:
            graphdef, state = nnx.split(Block(d_model, num_heads, d_ff, rngs))
            self.blocks = nnx.merge(graphdef, jax.tree.map(lambda leaf: jax.numpy.stack([leaf] * num_layers), state))
            return
        make = nnx.vmap(lambda rngs: Block(d_model, num_heads, d_ff, rngs), in_axes=0, out_axes=0)
        self.blocks = nnx.split_rngs(splits=num_layers)(make)(rngs)

    def __call__(self, x):
        graphdef, state = nnx.split(self.blocks)
        return jax.lax.scan(lambda x, layer: (nnx.merge(graphdef, layer)(x), None), x, state)[0]
