"""A forward pass with hooks, functions of a place and an activation; vmap over positions, a vmap over heads."""

import jax
import jax.numpy as jnp
from flax import nnx


def forward(model, token_ids, hook=lambda place, value: value):
    x = hook(("in", 0), model.embed.embedding[...][token_ids] + model.pos_embed[...][: token_ids.size])
    for i, block in enumerate(model.blocks):
        attn = block.attn
        if i:
            x = hook(("in", i), x)
        y = block.ln1(x)
        q, k, v = (layer(y).reshape(1, len(y), attn.num_heads, -1) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        z = hook(("heads", i), jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(len(y), -1))
        x = x + attn.out_proj(z)
        x = x + block.ff2(nnx.relu(block.ff1(block.ln2(x))))
    return jnp.einsum("td,vd->tv", model.ln_f(x), model.embed.embedding[...])


def logit_difference(logits, answer, foil):
    return logits[-1][jnp.stack([answer, foil])] @ jnp.array([1.0, -1.0])


def setting(model, clean_ids, corrupted_ids, answer, foil):
    saved = {}
    clean = logit_difference(
        forward(model, clean_ids, lambda place, value: saved.setdefault(place, value)), answer, foil
    )
    corrupted = logit_difference(forward(model, corrupted_ids), answer, foil)

    def score(where, change):
        logits = forward(
            model, corrupted_ids, lambda place, value: change(value, saved[place]) if place == where else value
        )
        return (logit_difference(logits, answer, foil) - corrupted) / (clean - corrupted)

    return score


def patch_stream(model, clean_ids, corrupted_ids, answer, foil):
    score = setting(model, clean_ids, corrupted_ids, answer, foil)
    return jnp.stack(
        [
            jax.vmap(lambda t, i=i: score(("in", i), lambda mine, clean: mine.at[t].set(clean[t])))(
                jnp.arange(len(clean_ids))
            )
            for i in range(len(model.blocks))
        ]
    )


def patch_heads(model, clean_ids, corrupted_ids, answer, foil):
    score = setting(model, clean_ids, corrupted_ids, answer, foil)
    H = model.blocks[0].attn.num_heads

    def own(h, mine):
        return jnp.arange(mine.shape[1]) // (mine.shape[1] // H) == h

    return jnp.stack(
        [
            jnp.stack(
                [score(("heads", i), lambda mine, clean, h=h: jnp.where(own(h, mine), clean, mine)) for h in range(H)]
            )
            for i in range(len(model.blocks))
        ]
    )
