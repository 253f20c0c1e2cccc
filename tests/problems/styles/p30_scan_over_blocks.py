"""The blocks stacked and run by a scan; jax.nn.dot_product_attention with a length."""

import jax
import jax.numpy as jnp
from flax import nnx


def empty_cache(model, context):
    attn = model.blocks[0].attn
    shape = (len(model.blocks), context, attn.num_heads, attn.q_proj.kernel.shape[1] // attn.num_heads)
    return {"k": jnp.zeros(shape), "v": jnp.zeros(shape), "n": jnp.array(0)}


def decode_step(model, cache, token_id):
    n = cache["n"]
    graph, _ = nnx.split(model.blocks[0])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *[nnx.state(block) for block in model.blocks])

    def run(x, layer):
        state, k_rows, v_rows = layer
        block = nnx.merge(graph, state)
        h = block.ln1(x)
        split = lambda y: y.reshape(block.attn.num_heads, -1)
        k_rows = k_rows.at[n].set(split(block.attn.k_proj(h)))
        v_rows = v_rows.at[n].set(split(block.attn.v_proj(h)))
        mixed = jax.nn.dot_product_attention(
            split(block.attn.q_proj(h))[None, None], k_rows[None], v_rows[None], key_value_seq_lengths=n[None] + 1
        )
        x = x + block.attn.out_proj(mixed.reshape(-1))
        return x + block.ff2(nnx.relu(block.ff1(block.ln2(x)))), (k_rows, v_rows)

    x = model.embed(token_id) + model.pos_embed[n]
    x, (k, v) = jax.lax.scan(run, x, (stacked, cache["k"], cache["v"]))
    return model.ln_f(x) @ model.embed.embedding[...].T, {"k": k, "v": v, "n": n + 1}
