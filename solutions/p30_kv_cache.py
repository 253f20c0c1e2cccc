"""Problem 30, reference: one position per step."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


def empty_cache(model: Any, context: int) -> dict[str, Array]:
    """Zeros for the keys and values of all blocks, (L, T, H, K), and the position of the next token."""
    heads, width = model.blocks[0].attn.num_heads, model.pos_embed.shape[1]
    rows = jnp.zeros((len(model.blocks), context, heads, width // heads))
    return {"position": jnp.int32(0), "keys": rows, "values": rows}


def decode_step(
    model: Any, cache: dict[str, Array], token_id: Int[Array, ""]
) -> tuple[Float[Array, "V"], dict[str, Array]]:
    """The forward pass of MiniGPT for one position. The keys and values of the others are in the cache."""
    position, keys, values = cache["position"], cache["keys"], cache["values"]
    visible_T = jnp.arange(keys.shape[1]) <= position
    x_D = model.embed(token_id) + model.pos_embed[position]
    for i, block in enumerate(model.blocks):
        attn, normal_D = block.attn, block.ln1(x_D)
        heads = (attn.num_heads, -1)
        q_HK = attn.q_proj(normal_D).reshape(heads)
        keys = keys.at[i, position].set(attn.k_proj(normal_D).reshape(heads))
        values = values.at[i, position].set(attn.v_proj(normal_D).reshape(heads))
        scores_HT = jnp.einsum("hk,thk->ht", q_HK, keys[i]) / jnp.sqrt(q_HK.shape[-1])
        weights_HT = jax.nn.softmax(jnp.where(visible_T, scores_HT, -1e9))
        x_D = x_D + attn.out_proj(jnp.einsum("ht,thk->hk", weights_HT, values[i]).reshape(-1))
        x_D = x_D + block.ff2(nnx.relu(block.ff1(block.ln2(x_D))))
    logits_V = model.ln_f(x_D) @ model.embed.embedding[...].T
    return logits_V, {"position": position + 1, "keys": keys, "values": values}
