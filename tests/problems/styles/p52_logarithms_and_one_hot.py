"""Ratios from logarithms, picks by one-hot products, the first rejection by argmin."""

import jax
import jax.numpy as jnp


def acceptance_probabilities(target, draft, drafted):
    picks = jax.nn.one_hot(drafted, draft.shape[1])
    p, q = jnp.einsum("nv,nv->n", target[: len(drafted)], picks), jnp.einsum("nv,nv->n", draft, picks)
    return jnp.exp(jnp.minimum(jnp.log(p) - jnp.log(q), 0))


def residual_distribution(target_row, draft_row):
    rest = target_row - jnp.minimum(target_row, draft_row)
    same = jnp.all(target_row == draft_row)
    return jnp.where(same, target_row, rest / jnp.where(same, 1, rest.sum()))


def speculative_step(target, draft, drafted, uniforms):
    *coins, coin = uniforms
    rejected = jnp.append(jnp.array(coins) >= acceptance_probabilities(target, draft, drafted), True)
    n = jnp.argmax(rejected)
    padded = jnp.concatenate(
        [draft, jnp.zeros((1, draft.shape[1]))]
    )  # a draft that gives nothing: all of the target is left
    law = residual_distribution(target[n], padded[n])
    ends = jnp.cumsum(law)
    new = jnp.sum(ends <= jnp.minimum(coin, jnp.nextafter(ends[-1], 0)))  # always below the last sum
    tokens = [jnp.where(i < n, token, jnp.where(i == n, new, -1)) for i, token in enumerate([*drafted, -1])]
    return jnp.stack(tokens).astype(jnp.int32), (n + 1).astype(jnp.int32)
