"""Uses one-hot targets and an explicit log-softmax."""

import jax
import jax.numpy as jnp


def next_token_loss(logits, token_ids, pad_id):
    targets = jnp.roll(token_ids, -1)[:-1]
    wanted = jax.nn.one_hot(targets, logits.shape[1])
    losses = -(wanted * jax.nn.log_softmax(logits)[: len(targets)]).sum(axis=1)
    weights = jnp.where(targets == pad_id, 0.0, 1.0)
    return jnp.where(weights.sum() > 0, (weights * losses).sum() / jnp.where(weights.sum() > 0, weights.sum(), 1), 0.0)
