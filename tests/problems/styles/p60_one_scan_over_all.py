"""Full runs with a mask that says where to patch; one `lax.map` over all places."""

import jax
import jax.numpy as jnp


def forward(model, ids, stream=None, heads=None, where_stream=None, where_heads=None):
    """Logits, streams (L, T, D) and mixed heads (L, T, H, K); where a mask is true, the given activations are taken
    instead."""
    x = model.embed(ids) + model.pos_embed[: ids.shape[0]]
    xs, zs = [], []
    for i, block in enumerate(model.blocks):
        if stream is not None:
            x = jnp.where(where_stream[i][:, None], stream[i], x)
        xs.append(x)
        n = block.ln1(x)
        q, k, v = (
            p(n).reshape(len(ids), block.attn.num_heads, -1)
            for p in (block.attn.q_proj, block.attn.k_proj, block.attn.v_proj)
        )
        a = jnp.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        a = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones_like(a)) > 0, a, -1e30), axis=-1)
        z = jnp.einsum("hqk,khd->qhd", a, v)
        if heads is not None:
            z = jnp.where(where_heads[i][None, :, None], heads[i], z)
        zs.append(z)
        x = x + block.attn.out_proj(z.reshape(len(ids), -1))
        x = x + block.ff2(jax.nn.relu(block.ff1(block.ln2(x))))
    return model.embed.attend(model.ln_f(x)), jnp.stack(xs), jnp.stack(zs)


def logit_difference(logits, answer, foil):
    return jnp.take(logits[-1], answer) - jnp.take(logits[-1], foil)


def grid(model, clean_ids, corrupted_ids, answer, foil, kind):
    logits, *activations = forward(model, clean_ids)
    clean = logit_difference(logits, answer, foil)
    corrupted = logit_difference(forward(model, corrupted_ids)[0], answer, foil)
    rows, columns = len(model.blocks), activations[kind].shape[1 + kind]

    def one(place):
        mask = (jnp.arange(rows * columns) == place).reshape(rows, columns)
        names = (("stream", "where_stream"), ("heads", "where_heads"))[kind]
        patched = forward(model, corrupted_ids, **dict(zip(names, (activations[kind], mask), strict=True)))
        return logit_difference(patched[0], answer, foil)

    found = jax.lax.map(one, jnp.arange(rows * columns)).reshape(rows, columns)
    return (found - corrupted) / (clean - corrupted)


def patch_stream(model, clean_ids, corrupted_ids, answer, foil):
    return grid(model, clean_ids, corrupted_ids, answer, foil, 0)


def patch_heads(model, clean_ids, corrupted_ids, answer, foil):
    return grid(model, clean_ids, corrupted_ids, answer, foil, 1)
