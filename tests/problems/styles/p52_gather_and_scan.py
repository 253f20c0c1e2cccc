"""Probabilities by `take_along_axis`, a scan over the positions, all residuals at once."""

import jax
import jax.numpy as jnp


def acceptance_probabilities(target, draft, drafted):
    p = jnp.take_along_axis(target[:-1], drafted[:, None], axis=1).squeeze(1)
    q = jnp.take_along_axis(draft, drafted[:, None], axis=1).squeeze(1)
    return jnp.where(p < q, p / q, jnp.ones_like(p))


def residual_distribution(target_row, draft_row):
    rest = jax.nn.relu(target_row - draft_row)
    return jax.lax.cond(rest.sum() == 0, lambda: target_row, lambda: rest / rest.sum())


def speculative_step(target, draft, drafted, uniforms):
    accept = acceptance_probabilities(target, draft, drafted)
    rows = jnp.concatenate([jax.vmap(residual_distribution)(target[:-1], draft), target[-1:]])

    def turn(going, x):
        token, a, u = x
        going = going & (u < a)
        return going, jnp.where(going, token, -1)

    _, kept = jax.lax.scan(turn, True, (drafted, accept, uniforms[:-1]))
    count = jnp.count_nonzero(kept >= 0)
    possible = jnp.max(jnp.where(rows[count] > 0, jnp.arange(draft.shape[1]), 0))
    new = jnp.minimum(jnp.searchsorted(jnp.cumsum(rows[count]), uniforms[-1], side="right"), possible)
    tokens = jnp.concatenate([kept, jnp.array([-1])]).at[count].set(new)
    return tokens.astype(jnp.int32), jnp.int32(count + 1)
