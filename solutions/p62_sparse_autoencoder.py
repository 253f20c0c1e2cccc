"""Problem 62, reference: a top-k sparse autoencoder."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def autoencode(
    x: Float[Array, "N D"], encoder: Float[Array, "D F"], decoder: Float[Array, "F D"], bias: Float[Array, "D"], k: int
) -> tuple[Float[Array, "N D"], Float[Array, "N F"]]:
    """The k largest scores of each token, and the sum of their rows (Gao et al. 2024)."""
    scores_NF = (x - bias) @ encoder
    largest_Nk, features_Nk = jax.lax.top_k(scores_NF, k)
    rows_N1 = jnp.arange(len(x))[:, None]
    codes_NF = jnp.zeros_like(scores_NF).at[rows_N1, features_Nk].set(jax.nn.relu(largest_Nk))
    return codes_NF @ decoder + bias, codes_NF


def unit_rows(decoder: Float[Array, "F D"]) -> Float[Array, "F D"]:
    """Each row divided by its length."""
    length_F1 = jnp.linalg.norm(decoder, axis=1, keepdims=True)
    return decoder / jnp.where(length_F1 > 0, length_F1, 1.0)


def project_gradient(decoder: Float[Array, "F D"], gradient: Float[Array, "F D"]) -> Float[Array, "F D"]:
    """What is left of each row without its projection on the decoder's row."""
    along_F1 = jnp.sum(gradient * decoder, axis=1, keepdims=True)
    return gradient - along_F1 * decoder


def idle_tokens(idle: Int[Array, "F"], codes: Float[Array, "N F"]) -> Int[Array, "F"]:
    """0 where a feature is used in the batch, else longer by the batch."""
    return jnp.where(jnp.any(codes > 0, axis=0), 0, idle + len(codes))


def revive(
    encoder: Float[Array, "D F"],
    decoder: Float[Array, "F D"],
    idle: Int[Array, "F"],
    errors: Float[Array, "N D"],
    patience: int,
) -> tuple[Float[Array, "D F"], Float[Array, "F D"], Int[Array, "F"]]:
    """Dead features get the directions of the largest errors, one each (after Bricken et al. 2023)."""
    dead_F = idle >= patience
    length_N = jnp.linalg.norm(errors, axis=1)
    order_N = jnp.argsort(-length_N)
    rank_F = jnp.cumsum(dead_F) - 1
    chosen_F = dead_F & (rank_F < len(errors))
    row_F = order_N[jnp.clip(rank_F, 0, len(errors) - 1)]
    direction_FD = (errors / length_N[:, None])[row_F]
    size = 0.2 * jnp.mean(jnp.linalg.norm(encoder, axis=0), where=~dead_F)
    return (
        jnp.where(chosen_F, size * direction_FD.T, encoder),
        jnp.where(chosen_F[:, None], direction_FD, decoder),
        jnp.where(chosen_F, 0, idle),
    )
