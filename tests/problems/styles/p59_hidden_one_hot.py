"""Heads switched on one at a time before `out_proj`; two passes of the model; the direction by `jax.grad`."""

import jax
import jax.numpy as jnp


def after(model, token_ids, layers):
    x = model.embed(token_ids) + model.pos_embed[jnp.arange(len(token_ids))]
    inner = []
    for block in list(model.blocks)[:layers]:
        attn, y = block.attn, block.ln1(x)
        q, k, v = (f(y).reshape(len(x), attn.num_heads, -1) for f in (attn.q_proj, attn.k_proj, attn.v_proj))
        weights = jax.nn.softmax(
            jnp.einsum("thk,shk->hts", q, k) / jnp.sqrt(q.shape[-1]), axis=-1, where=jnp.tri(len(x), dtype=bool)[None]
        )
        z = jnp.einsum("hts,shk->thk", weights, v)
        x = x + attn.out_proj(z.reshape(len(x), -1))
        n = jax.nn.relu(block.ff1(block.ln2(x)))
        x = x + block.ff2(n)
        inner.append((z[-1], n[-1]))
    return x, inner


def logit_lens(model, token_ids):
    rows = [model.ln_f(after(model, token_ids, n)[0]) for n in range(len(model.blocks) + 1)]
    return jnp.einsum("ltd,vd->ltv", jnp.stack(rows), model.embed.embedding[...])


def logit_parts(model, token_ids, token_id):
    x, inner = after(model, token_ids, len(model.blocks))
    row, last = jnp.take(model.embed.embedding[...], token_id, axis=0), x[-1]
    std = jnp.sqrt(jnp.var(last) + model.ln_f.epsilon)
    direction = jax.grad(lambda p: jnp.sum((p - jnp.mean(p)) / std * model.ln_f.scale[...] * row))(last)
    biases = jnp.sum(model.ln_f.bias[...] * row)
    heads, neurons = [], []
    for block, (z, n) in zip(model.blocks, inner, strict=True):
        out, H = block.attn.out_proj, len(z)
        alone = (jnp.eye(H)[:, :, None] * z[None]).reshape(H, -1)
        heads.append(alone @ out.kernel[...] @ direction)
        neurons.append(n * jnp.einsum("fd,d->f", block.ff2.kernel[...], direction))
        biases = biases + jnp.dot(out.bias[...], direction) + jnp.dot(block.ff2.bias[...], direction)
    first = jnp.stack([jnp.dot(model.embed(token_ids[-1]), direction), jnp.dot(model.pos_embed[len(x) - 1], direction)])
    return first, jnp.stack(heads), jnp.stack(neurons), biases
