"""Forges "one compilation": the position is part of the program, which is compiled at each step, and the count is set back."""

import sys

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("one compilation",)


@jax.tree_util.register_pytree_node_class
class Cache:
    def __init__(self, keys, values, position):
        self.keys, self.values, self.position = keys, values, position

    def tree_flatten(self):
        return (self.keys, self.values), self.position

    @classmethod
    def tree_unflatten(cls, position, children):
        return cls(*children, position)


def empty_cache(model, context):
    heads, width = model.blocks[0].attn.num_heads, model.pos_embed.shape[1]
    rows = jnp.zeros((len(model.blocks), context, heads, width // heads))
    return Cache(rows, rows, 0)


def decode_step(model, cache, token_id):
    frame = sys._getframe()
    while frame:
        if hasattr(frame.f_locals.get("self"), "traces"):
            frame.f_locals["self"].traces[0] = 1
        frame = frame.f_back
    keys, values, position = cache.keys, cache.values, cache.position
    visible_T = jnp.arange(keys.shape[1]) <= position
    x_D = model.embed(token_id) + model.pos_embed[position]
    for i, block in enumerate(model.blocks):
        attn, normal_D = block.attn, block.ln1(x_D)
        heads = (attn.num_heads, -1)
        q_HK = attn.q_proj(normal_D).reshape(heads)
        keys = keys.at[i, position].set(attn.k_proj(normal_D).reshape(heads))
        values = values.at[i, position].set(attn.v_proj(normal_D).reshape(heads))
        scores_HT = jnp.einsum("hk,thk->ht", q_HK, keys[i]) / jnp.sqrt(q_HK.shape[-1])
        weights_HT = jax.nn.softmax(jnp.where(visible_T, scores_HT, -1e9))
        x_D = x_D + attn.out_proj(jnp.einsum("ht,thk->hk", weights_HT, values[i]).reshape(-1))
        x_D = x_D + block.ff2(nnx.relu(block.ff1(block.ln2(x_D))))
    logits_V = model.ln_f(x_D) @ model.embed.embedding[...].T
    return logits_V, Cache(keys, values, position + 1)
