"""A list of (key, value) pairs of shape (H, T, K), written with dynamic_update_slice."""

import jax
import jax.numpy as jnp


def empty_cache(model, context):
    H = model.blocks[0].attn.num_heads
    K = model.embed.embedding.shape[1] // H
    return jnp.zeros((), jnp.int32), [(jnp.zeros((H, context, K)), jnp.zeros((H, context, K))) for _ in model.blocks]


def decode_step(model, cache, token_id):
    t, layers = cache
    x = model.embed.embedding[token_id] + jax.lax.dynamic_index_in_dim(model.pos_embed[...], t, keepdims=False)
    new = []
    for block, (K, V) in zip(model.blocks, layers):
        h, a = block.ln1(x), block.attn
        q, k, v = (jnp.reshape(p(h), (a.num_heads, 1, -1)) for p in (a.q_proj, a.k_proj, a.v_proj))
        K = jax.lax.dynamic_update_slice(K, k, (0, t, 0))
        V = jax.lax.dynamic_update_slice(V, v, (0, t, 0))
        s = (q @ K.swapaxes(1, 2)) * q.shape[-1] ** -0.5
        s = s + jnp.where(jnp.arange(K.shape[1]) > t, -jnp.inf, 0)
        x = x + a.out_proj((jax.nn.softmax(s, axis=-1) @ V).reshape(-1))
        x = x + block.ff2(jax.nn.relu(block.ff1(block.ln2(x))))
        new.append((K, V))
    return model.ln_f(x) @ model.embed.embedding.T, (t + 1, new)
