"""Forges the size of the cache: it also holds keys of each pair of token and position, which each step passes on as
they are."""

import jax
import jax.numpy as jnp

LOSES = ("size of the cache",)


def empty_cache(model, context):
    first, places = model.blocks[0], model.pos_embed[...][:context]
    table = first.attn.k_proj(first.ln1(model.embed.embedding[...][:, None] + places[None]))
    zeros = jnp.zeros((len(model.blocks), context, places.shape[1]))
    return {"position": jnp.int32(0), "k": zeros, "v": zeros, "table": table}


def decode_step(model, cache, token_id):
    t, ks, vs, H = cache["position"], cache["k"], cache["v"], model.blocks[0].attn.num_heads
    x = model.embed.embedding[...][token_id] + model.pos_embed[...][t]
    for i, block in enumerate(model.blocks):
        attn, normal = block.attn, block.ln1(x)
        ks = ks.at[i, t].set(cache["table"][token_id, t] if i == 0 else attn.k_proj(normal))
        vs = vs.at[i, t].set(attn.v_proj(normal))
        keys, values = (each[i].reshape(len(each[i]), H, -1) for each in (ks, vs))
        q = attn.q_proj(normal).reshape(H, -1)
        scores = jnp.einsum("hk,thk->ht", q, keys) / q.shape[-1] ** 0.5
        weights = jax.nn.softmax(jnp.where(jnp.arange(len(keys)) <= t, scores, -1e9))
        x = x + attn.out_proj(jnp.einsum("ht,thk->hk", weights, values).reshape(-1))
        x = x + block.ff2(jax.nn.relu(block.ff1(block.ln2(x))))
    logits = model.ln_f(x) @ model.embed.embedding[...].T
    return logits, {**cache, "position": t + 1, "k": ks, "v": vs}
