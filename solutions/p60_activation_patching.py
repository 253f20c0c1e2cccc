"""Problem 60, reference: activation patching."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


def mix(block: Any, x_TD: Float[Array, "T D"]) -> Float[Array, "T H K"]:
    """What the heads of a block mix, before `out_proj`."""
    attn, normal_TD = block.attn, block.ln1(x_TD)
    heads = (len(x_TD), attn.num_heads, -1)
    q_THK, k_THK, v_THK = (layer(normal_TD).reshape(heads) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
    return jax.nn.dot_product_attention(q_THK, k_THK, v_THK, is_causal=True)


def finish(block: Any, x_TD: Float[Array, "T D"], mixed_THK: Float[Array, "T H K"]) -> Float[Array, "T D"]:
    """The stream after a block, given what its heads mixed."""
    x_TD = x_TD + block.attn.out_proj(mixed_THK.reshape(x_TD.shape))
    return x_TD + block.ff2(nnx.relu(block.ff1(block.ln2(x_TD))))


def rest(model: Any, x_TD: Float[Array, "T D"], first: int) -> Float[Array, "T V"]:
    """The logits of the stream that enters block `first`."""
    for block in model.blocks[first:]:
        x_TD = finish(block, x_TD, mix(block, x_TD))
    return model.ln_f(x_TD) @ model.embed.embedding[...].T


def record(model: Any, token_ids: Int[Array, "T"]) -> tuple[list[Array], list[Array]]:
    """The stream that enters each block, and what its heads mix."""
    x_TD = model.embed(token_ids) + model.pos_embed[: len(token_ids)]
    stream, mixed = [], []
    for block in model.blocks:
        stream.append(x_TD)
        mixed.append(mix(block, x_TD))
        x_TD = finish(block, x_TD, mixed[-1])
    return stream, mixed


def logit_difference(logits: Float[Array, "T V"], answer: Int[Array, ""], foil: Int[Array, ""]) -> Float[Array, ""]:
    """The metric of Wang et al. 2023: unlike a probability, it is linear in the last stream up to the norm."""
    return logits[-1, answer] - logits[-1, foil]


def scaled(differences: Array, clean: Array, corrupted: Array) -> Array:
    """Logit differences as scores: 0 for the corrupted run, 1 for the clean one."""
    return (differences - corrupted) / (clean - corrupted)


def patch_stream(
    model: Any, clean_ids: Int[Array, "T"], corrupted_ids: Int[Array, "T"], answer: Int[Array, ""], foil: Int[Array, ""]
) -> Float[Array, "L T"]:
    """Causal tracing (Meng et al. 2022) of the residual stream, one vector at a time."""
    (clean, _), (corrupted, _) = record(model, clean_ids), record(model, corrupted_ids)

    def run(x_TD: Array, layer: int) -> Array:
        return logit_difference(rest(model, x_TD, layer), answer, foil)

    def patched(layer: int, t: Array) -> Array:
        return run(corrupted[layer].at[t].set(clean[layer][t]), layer)

    positions = jnp.arange(len(clean_ids))
    rows = [jax.vmap(lambda t, layer=layer: patched(layer, t))(positions) for layer in range(len(model.blocks))]
    return scaled(jnp.stack(rows), run(clean[0], 0), run(corrupted[0], 0))


def patch_heads(
    model: Any, clean_ids: Int[Array, "T"], corrupted_ids: Int[Array, "T"], answer: Int[Array, ""], foil: Int[Array, ""]
) -> Float[Array, "L H"]:
    """The same with what one head mixed at all positions."""
    (clean, clean_mixed), (corrupted, corrupted_mixed) = record(model, clean_ids), record(model, corrupted_ids)

    def run(x_TD: Array, layer: int) -> Array:
        return logit_difference(rest(model, x_TD, layer), answer, foil)

    def patched(layer: int, h: Array) -> Array:
        mixed_THK = corrupted_mixed[layer].at[:, h].set(clean_mixed[layer][:, h])
        return run(finish(model.blocks[layer], corrupted[layer], mixed_THK), layer + 1)

    heads = jnp.arange(clean_mixed[0].shape[1])
    rows = [jax.vmap(lambda h, layer=layer: patched(layer, h))(heads) for layer in range(len(model.blocks))]
    return scaled(jnp.stack(rows), run(clean[0], 0), run(corrupted[0], 0))
