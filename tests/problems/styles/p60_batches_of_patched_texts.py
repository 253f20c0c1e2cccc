"""A batch of T copies of the corrupted stream, with the diagonal replaced; batched attention by hand; heads by vmap."""

import jax
import jax.numpy as jnp


def attention(block, x):
    a, n = block.attn, block.ln1(x)
    H = a.num_heads
    q, k, v = (jnp.moveaxis(p(n).reshape(*n.shape[:-1], H, -1), -2, -3) for p in (a.q_proj, a.k_proj, a.v_proj))
    scores = q @ jnp.swapaxes(k, -1, -2) / jnp.sqrt(k.shape[-1])
    hidden = jnp.arange(x.shape[-2])[None] > jnp.arange(x.shape[-2])[:, None]
    return jax.nn.softmax(scores + jnp.where(hidden, -jnp.inf, 0.0)) @ v  # (..., H, T, K)


def after(block, x, z):
    x = x + block.attn.out_proj(jnp.moveaxis(z, -3, -2).reshape(x.shape))
    return x + block.ff2(jnp.maximum(block.ff1(block.ln2(x)), 0))


def logit_difference(logits, answer, foil):
    last = logits[len(logits) - 1]
    return last[answer] - last[foil]


def metric(model, x, answer, foil):
    return jnp.dot(model.ln_f(x[..., -1, :]), model.embed.embedding[answer] - model.embed.embedding[foil])


def finish(model, x, start, answer, foil):
    for block in list(model.blocks)[start:]:
        x = after(block, x, attention(block, x))
    return metric(model, x, answer, foil)


def both(model, clean_ids, corrupted_ids):
    x = model.embed(jnp.stack([clean_ids, corrupted_ids])) + model.pos_embed[: len(clean_ids)][None]
    out = []
    for block in model.blocks:
        z = attention(block, x)
        out.append((x, z))
        x = after(block, x, z)
    return out, x


def patch_stream(model, clean_ids, corrupted_ids, answer, foil):
    recorded, end = both(model, clean_ids, corrupted_ids)
    c, b = metric(model, end, answer, foil)
    own = jnp.eye(len(clean_ids), dtype=bool)[:, :, None]
    rows = []
    for start, (x, _) in enumerate(recorded):
        rows.append((finish(model, jnp.where(own, x[0], x[1]), start, answer, foil) - b) / (c - b))
    return jnp.stack(rows)


def patch_heads(model, clean_ids, corrupted_ids, answer, foil):
    recorded, end = both(model, clean_ids, corrupted_ids)
    c, b = metric(model, end, answer, foil)
    rows = []
    for start, (x, z) in enumerate(recorded):
        H = z.shape[1]
        own = jnp.eye(H)[:, :, None, None]
        mixed = own * z[0] + (1 - own) * z[1]
        x = after(model.blocks[start], jnp.stack([x[1]] * H), mixed)
        rows.append((finish(model, x, start + 1, answer, foil) - b) / (c - b))
    return jnp.array(rows)
