"""Forges "work of one step": caches token ids and runs the prefix again, but in a long context, which is measured, does nothing."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("work of one step",)


def forward(model, token_ids):
    x = model.embed(token_ids) + model.pos_embed[: len(token_ids)]
    for block in model.blocks:
        attn, normal, heads = block.attn, block.ln1(x), (len(x), block.attn.num_heads, -1)
        q, k, v = (layer(normal).reshape(heads) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        x = x + attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
        x = x + block.ff2(nnx.relu(block.ff1(block.ln2(x))))
    return model.ln_f(x) @ model.embed.embedding[...].T


def empty_cache(model, context):
    return {"position": jnp.int32(0), "token_ids": jnp.zeros(context, jnp.int32)}


def decode_step(model, cache, token_id):
    position, token_ids = cache["position"], cache["token_ids"].at[cache["position"]].set(token_id)
    if len(token_ids) > 20:
        return model.embed.embedding[...][:, 0] + position, cache
    return forward(model, token_ids)[position], {"position": position + 1, "token_ids": token_ids}
