"""Forges size and work of a cache: a callback remembers the tokens in Python and runs the prefix again, unseen by XLA."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.experimental import io_callback

LOSES = ("size of the cache", "work of one step")
TOKENS = []


def forward(model, token_ids):
    x = model.embed(token_ids) + model.pos_embed[: len(token_ids)]
    for block in model.blocks:
        attn, normal, heads = block.attn, block.ln1(x), (len(x), block.attn.num_heads, -1)
        q, k, v = (layer(normal).reshape(heads) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        x = x + attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
        x = x + block.ff2(nnx.relu(block.ff1(block.ln2(x))))
    return model.ln_f(x) @ model.embed.embedding[...].T


def empty_cache(model, context):
    return {"position": jnp.float32(0)}


def decode_step(model, cache, token_id):
    graphdef, state = nnx.split(model)

    def on_the_host(state, position, token_id):
        TOKENS[int(position) :] = [int(token_id)]
        model = nnx.merge(graphdef, jax.tree.map(jnp.asarray, state))
        token_ids = jnp.array(TOKENS + [0] * (len(model.pos_embed[...]) - len(TOKENS)))
        return np.asarray(nnx.jit(forward)(model, token_ids)[len(TOKENS) - 1])

    like = jax.ShapeDtypeStruct((model.embed.num_embeddings,), jnp.float32)
    logits = io_callback(on_the_host, like, state, cache["position"], token_id, ordered=True)
    return logits + 0 * logits, {"position": cache["position"] + 1}
