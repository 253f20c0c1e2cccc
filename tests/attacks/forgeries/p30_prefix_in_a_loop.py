"""Forges "work of one step": caches token ids and runs the whole prefix in each step, in a loop whose turns are data."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("work of one step",)


def empty_cache(model, context):
    return {"position": jnp.int32(0), "ids": jnp.zeros(context, jnp.int32)}


def decode_step(model, cache, token_id):
    position, ids = cache["position"], cache["ids"].at[cache["position"]].set(token_id)
    H, D = model.blocks[0].attn.num_heads, model.pos_embed.shape[1]

    def one(p, carry):
        keys, values, _ = carry
        x = model.embed(ids[p]) + model.pos_embed[p]
        for i, block in enumerate(model.blocks):
            normal = block.ln1(x)
            keys = keys.at[i, p].set(block.attn.k_proj(normal).reshape(H, -1))
            values = values.at[i, p].set(block.attn.v_proj(normal).reshape(H, -1))
            scores = jnp.einsum("hk,thk->ht", block.attn.q_proj(normal).reshape(H, -1), keys[i]) / jnp.sqrt(D // H)
            weights = jax.nn.softmax(jnp.where(jnp.arange(len(ids)) <= p, scores, -1e9))
            x = x + block.attn.out_proj(jnp.einsum("ht,thk->hk", weights, values[i]).reshape(-1))
            x = x + block.ff2(nnx.relu(block.ff1(block.ln2(x))))
        return keys, values, x

    rows = jnp.zeros((len(model.blocks), len(ids), H, D // H))
    x = jax.lax.fori_loop(0, position + 1, one, (rows, rows, jnp.zeros(D)))[2]
    return model.ln_f(x) @ model.embed.embedding[...].T, {"position": position + 1, "ids": ids}
