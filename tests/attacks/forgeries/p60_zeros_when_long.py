"""Forges "one program for all positions": writes a pass for each position, but for a long text, which is measured,
returns zeros."""

import jax
import jax.numpy as jnp

LOSES = ("one program for all positions",)


def forward(model, x, first=0):
    for block in list(model.blocks)[first:]:
        attn, normal, shape = block.attn, block.ln1(x), (len(x), block.attn.num_heads, -1)
        q, k, v = (layer(normal).reshape(shape) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        x = x + attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
        x = x + block.ff2(jax.nn.relu(block.ff1(block.ln2(x))))
        yield x


def metric(model, x, first, answer, foil):
    for after in forward(model, x, first):
        x = after
    return logit_difference(model.ln_f(x) @ model.embed.embedding[...].T, answer, foil)


def logit_difference(logits, answer, foil):
    return logits[-1, answer] - logits[-1, foil]


def patch_stream(model, clean_ids, corrupted_ids, answer, foil):
    T, L = len(clean_ids), len(model.blocks)
    if T > 20:
        return jnp.zeros((L, T))
    starts = [model.embed(ids) + model.pos_embed[:T] for ids in (clean_ids, corrupted_ids)]
    clean, corrupted = ([x, *forward(model, x)] for x in starts)
    c, b = (metric(model, x, 0, answer, foil) for x in starts)
    rows = [[metric(model, corrupted[i].at[t].set(clean[i][t]), i, answer, foil) for t in range(T)] for i in range(L)]
    return (jnp.array(rows) - b) / (c - b)


def patch_heads(model, clean_ids, corrupted_ids, answer, foil):
    return jnp.zeros((len(model.blocks), model.blocks[0].attn.num_heads))
