"""Every part as a vector in the stream, the norm by hand, a head at a time."""

import jax
import jax.numpy as jnp


def norm(layer, x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + layer.epsilon) * layer.scale[...] + layer.bias[...]


def forward(model, token_ids):
    T = token_ids.size
    token, position = model.embed.embedding[...][token_ids], model.pos_embed[...][:T]
    x = token + position
    streams, heads, neurons, biases = [x], [], [], jnp.zeros(x.shape[1])
    for block in model.blocks:
        attn, normal = block.attn, norm(block.ln1, x)
        K = x.shape[1] // attn.num_heads
        rows = []
        for h in range(attn.num_heads):
            own = slice(h * K, (h + 1) * K)
            q, k, v = (layer(normal)[:, own] for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
            weights = jax.nn.softmax(jnp.where(jnp.tri(T, dtype=bool), q @ k.T / K**0.5, -jnp.inf), axis=-1)
            rows.append(weights @ v @ attn.out_proj.kernel[own])
        heads.append(jnp.stack(rows)[:, -1])
        x = x + sum(rows) + attn.out_proj.bias[...]
        hidden = jnp.maximum(block.ff1(norm(block.ln2, x)), 0)
        neurons.append(hidden[-1][:, None] * block.ff2.kernel[...])
        x = x + block.ff2(hidden)
        biases = biases + attn.out_proj.bias[...] + block.ff2.bias[...]
        streams.append(x)
    return jnp.stack(streams), jnp.stack([token[-1], position[-1]]), jnp.array(heads), jnp.array(neurons), biases


def logit_lens(model, token_ids):
    return norm(model.ln_f, forward(model, token_ids)[0]) @ model.embed.embedding[...].T


def logit_parts(model, token_ids, token_id):
    streams, *vectors = forward(model, token_ids)
    row, bias = model.embed.embedding[...][token_id], model.ln_f.bias[...]
    sigma = jnp.sqrt(streams[-1, -1].var() + model.ln_f.epsilon)
    embeddings, heads, neurons, biases = (
        ((p - p.mean(-1, keepdims=True)) / sigma * model.ln_f.scale[...]) @ row for p in vectors
    )
    return embeddings, heads, neurons, biases + bias @ row
