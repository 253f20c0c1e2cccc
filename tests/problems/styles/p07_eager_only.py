"""Branches on values in Python, so it cannot be traced."""

import jax
import jax.numpy as jnp


def next_token_loss(logits, token_ids, pad_id):
    total, count = 0.0, 0
    for row, target in zip(logits, token_ids[1:].tolist(), strict=False):
        if target == pad_id:
            continue
        total = total + jax.nn.logsumexp(row) - row[target]
        count += 1
    return total / count if count else jnp.float32(0)
