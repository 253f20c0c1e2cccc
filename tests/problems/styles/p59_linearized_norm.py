"""The norm as a function whose statistics are given, linearized by `jax.linearize`; a layer at a time in the lens."""

import jax
import jax.numpy as jnp


def blocks(model, ids):
    x = model.embed.embedding[...][ids] + model.pos_embed[...][: ids.shape[0]]
    yield x, None, None
    for block in model.blocks:
        a, y = block.attn, block.ln1(x)
        H = a.num_heads
        q, k, v = (jnp.stack(jnp.split(p(y), H, axis=-1)) for p in (a.q_proj, a.k_proj, a.v_proj))
        scores = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
        future = jnp.triu(jnp.ones(scores.shape[1:], bool), 1)
        z = jax.nn.softmax(jnp.where(future, -jnp.inf, scores), -1) @ v
        x = x + a.out_proj(jnp.concatenate(list(z), -1))
        n = jnp.maximum(block.ff1(block.ln2(x)), 0)
        x = x + n @ block.ff2.kernel[...] + block.ff2.bias[...]
        yield x, z[:, -1], n[-1]


def logit_lens(model, token_ids):
    return jnp.stack([model.embed.attend(model.ln_f(x)) for x, _, _ in blocks(model, token_ids)])


def logit_parts(model, token_ids, token_id):
    xs, mixed, neurons = zip(*blocks(model, token_ids), strict=True)
    sigma = jnp.sqrt(jnp.mean((xs[-1][-1] - xs[-1][-1].mean()) ** 2) + model.ln_f.epsilon)
    row = model.embed.embedding[...][token_id]

    def logit(x):
        return jnp.vdot((x - x.mean()) / sigma * model.ln_f.scale[...] + model.ln_f.bias[...], row)

    constant, linear = jax.linearize(logit, jnp.zeros_like(row))
    each = jax.vmap(linear)
    first = each(jnp.stack([model.embed.embedding[...][token_ids[-1]], model.pos_embed[...][token_ids.shape[0] - 1]]))
    heads, units, biases = [], [], constant
    for block, z, n in zip(model.blocks, mixed[1:], neurons[1:], strict=True):
        kernels = jnp.stack(jnp.split(block.attn.out_proj.kernel[...], len(z), axis=0))
        heads.append(each(jnp.einsum("hk,hkd->hd", z, kernels)))
        units.append(each(n[:, None] * block.ff2.kernel[...]))
        biases = biases + linear(block.attn.out_proj.bias[...]) + linear(block.ff2.bias[...])
    return first, jnp.array(heads), jnp.array(units), biases
