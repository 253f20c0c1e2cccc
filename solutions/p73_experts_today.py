"""Problem 73, reference: experts as DeepSeek-V3 has them (DeepSeek-AI 2024, equations 12 to 16), without groups of
experts, and the update of Wang et al. 2024."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

TILE = 8


def route(
    x: Float[Array, "T D"], w: Float[Array, "D E"], bias: Float[Array, "E"], k: int
) -> tuple[Int[Array, "T k"], Float[Array, "T k"]]:
    """The k experts of each token, by score plus bias, and their weights, by score alone."""
    scores_TE = jax.nn.sigmoid(x @ w)
    experts_Tk = jax.lax.top_k(scores_TE + bias, k)[1]
    chosen_Tk = jnp.take_along_axis(scores_TE, experts_Tk, axis=1)
    return experts_Tk, chosen_Tk / (chosen_Tk.sum(axis=1, keepdims=True) + 1e-9)


def update_bias(bias: Float[Array, "E"], counts: Int[Array, "E"], rate: float) -> Float[Array, "E"]:
    """The bias after a step: higher for an expert with fewer choices than the mean, lower for one with more."""
    return bias + rate * jnp.sign(jnp.mean(counts) - counts)


def swiglu(x_TD: Array, w_in: Array, w_out: Array) -> Array:
    """A gated feed-forward network, whose gate is the first half of `w_in`'s columns."""
    gate, up = jnp.split(x_TD @ w_in, 2, axis=-1)
    return (jax.nn.silu(gate) * up) @ w_out


def moe(
    x: Float[Array, "T D"],
    w: Float[Array, "D E"],
    bias: Float[Array, "E"],
    k: int,
    w_in: Float[Array, "E D 2*F"],
    w_out: Float[Array, "E F D"],
    shared_in: Float[Array, "D 2*M"],
    shared_out: Float[Array, "M D"],
) -> tuple[Float[Array, "T D"], Int[Array, "E"]]:
    """The shared expert plus the weighted experts of each token, and how many tokens chose each expert."""
    T, E, R = len(x), len(bias), TILE
    experts_Tk, weights_Tk = route(x, w, bias, k)
    expert_N, weight_N = experts_Tk.reshape(-1), weights_Tk.reshape(-1)  # N = T k choices: n is one of token n // k
    counts_E = jnp.bincount(expert_N, length=E)

    # Each expert's choices are filled up with empty rows to whole tiles, before a sort brings them together. Of R - 1
    # such rows for each expert, those that it does not need get the number E, and come last.
    filler_ER = jnp.where(jnp.arange(R - 1) < (-counts_E % R)[:, None], jnp.arange(E)[:, None], E)
    all_experts = jnp.concatenate([expert_N, filler_ER.reshape(-1)])
    J = len(all_experts) // R
    choice_JR = jnp.argsort(all_experts)[: J * R].reshape(J, R)
    expert_J = all_experts[choice_JR[:, 0]]

    # A choice of N or more is an empty row: zeros are read, and nothing is written.
    token_JR = jnp.where(choice_JR < T * k, choice_JR // k, T)
    rows_JRD = x.at[token_JR].get(mode="fill", fill_value=0)
    y_JRD = jax.vmap(swiglu)(rows_JRD, w_in[expert_J], w_out[expert_J])
    weight_JR = weight_N.at[choice_JR].get(mode="fill", fill_value=0)
    out_TD = swiglu(x, shared_in, shared_out).at[token_JR].add(weight_JR[:, :, None] * y_JRD, mode="drop")
    return out_TD, counts_E
