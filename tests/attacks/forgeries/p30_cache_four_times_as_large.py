"""Forges the size of the cache: four times as many positions, as complex numbers."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("size of the cache",)


def empty_cache(model, context):
    H, D = model.blocks[0].attn.num_heads, model.pos_embed.shape[1]
    return {"position": jnp.int32(0), "kv": jnp.zeros((len(model.blocks), 4 * context, H, D // H), jnp.complex64)}


def decode_step(model, cache, token_id):
    position, kv = cache["position"], cache["kv"]
    T = kv.shape[1]
    visible = jnp.arange(T) <= position
    x = model.embed(token_id) + model.pos_embed[position]
    for i, block in enumerate(model.blocks):
        attn, normal = block.attn, block.ln1(x)
        heads = (attn.num_heads, -1)
        q = attn.q_proj(normal).reshape(heads)
        kv = kv.at[i, position].set(
            jax.lax.complex(attn.k_proj(normal).reshape(heads), attn.v_proj(normal).reshape(heads))
        )
        part = kv[i, : T // 4]
        scores = jnp.einsum("hk,thk->ht", q, part.real) / jnp.sqrt(q.shape[-1])
        w = jax.nn.softmax(jnp.where(visible[: T // 4], scores, -1e9))
        x = x + attn.out_proj(jnp.einsum("ht,thk->hk", w, part.imag).reshape(-1))
        x = x + block.ff2(nnx.relu(block.ff1(block.ln2(x))))
    return model.ln_f(x) @ model.embed.embedding[...].T, {"position": position + 1, "kv": kv}
