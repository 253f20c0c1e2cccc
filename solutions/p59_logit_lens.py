"""Problem 59, reference: the logit lens and direct attribution."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


def run(model: Any, token_ids: Int[Array, "T"]) -> tuple[Array, Array, Array]:
    """The stream before and after each block, (L + 1, T, D); what the heads mixed, (L, T, H, K); the neurons, (L, T,
    F)."""
    x_TD = model.embed(token_ids) + model.pos_embed[: len(token_ids)]
    stream, mixed, hidden = [x_TD], [], []
    for block in model.blocks:
        attn, normal_TD = block.attn, block.ln1(x_TD)
        heads = (len(token_ids), attn.num_heads, -1)
        q_THK, k_THK, v_THK = (layer(normal_TD).reshape(heads) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        mixed_THK = jax.nn.dot_product_attention(q_THK, k_THK, v_THK, is_causal=True)
        x_TD = x_TD + attn.out_proj(mixed_THK.reshape(x_TD.shape))
        hidden_TF = nnx.relu(block.ff1(block.ln2(x_TD)))
        x_TD = x_TD + block.ff2(hidden_TF)
        stream.append(x_TD)
        mixed.append(mixed_THK)
        hidden.append(hidden_TF)
    return jnp.stack(stream), jnp.stack(mixed), jnp.stack(hidden)


def logit_lens(model: Any, token_ids: Int[Array, "T"]) -> Float[Array, "L+1 T V"]:
    """The final norm and the head on the stream between all blocks (nostalgebraist 2020)."""
    stream_LTD, _, _ = run(model, token_ids)
    return model.ln_f(stream_LTD) @ model.embed.embedding[...].T


def logit_parts(
    model: Any, token_ids: Int[Array, "T"], token_id: Int[Array, ""]
) -> tuple[Float[Array, "2"], Float[Array, "L H"], Float[Array, "L F"], Float[Array, ""]]:
    """Direct attribution: with the standard deviation of the whole stream, the final norm is linear (Elhage et al.
    2021)."""
    stream_LTD, mixed_LTHK, hidden_LTF = run(model, token_ids)
    final_D, row_D = stream_LTD[-1, -1], model.embed.embedding[token_id]
    scaled_D = model.ln_f.scale[...] * row_D
    centered_D = scaled_D - jnp.mean(scaled_D)  # instead of centering every part
    toward_D = centered_D / jnp.sqrt(jnp.var(final_D) + model.ln_f.epsilon)

    rows_2D = jnp.stack([model.embed.embedding[token_ids[-1]], model.pos_embed[len(token_ids) - 1]])
    heads, neurons, biases = [], [], model.ln_f.bias[...] @ row_D
    for block, mixed_HK, hidden_F in zip(model.blocks, mixed_LTHK[:, -1], hidden_LTF[:, -1], strict=True):
        attn = block.attn
        out_HKD = attn.out_proj.kernel[...].reshape(*mixed_HK.shape, -1)
        heads.append(jnp.einsum("hk,hkd,d->h", mixed_HK, out_HKD, toward_D))
        neurons.append(hidden_F * (block.ff2.kernel[...] @ toward_D))
        biases += (attn.out_proj.bias[...] + block.ff2.bias[...]) @ toward_D
    return rows_2D @ toward_D, jnp.stack(heads), jnp.stack(neurons), biases
