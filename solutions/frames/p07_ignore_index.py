"""As `transformers` does it: labels of -100 do not count, the logits are float32, and their last row is cut off."""

import jax
import jax.numpy as jnp


def next_token_loss(logits, token_ids, pad_id):
    labels = jnp.where(token_ids == pad_id, -100, token_ids)
    shift_logits, shift_labels = logits[:-1, :].astype(jnp.float32), labels[1:]
    kept = shift_labels != -100
    log_p = jax.nn.log_softmax(shift_logits, axis=-1)
    losses = -jnp.take_along_axis(log_p, jnp.maximum(shift_labels, 0)[:, None], axis=-1)[:, 0]
    return jnp.where(kept, losses, 0.0).sum() / jnp.maximum(kept.sum(), 1)
