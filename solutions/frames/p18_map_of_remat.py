"""lax.map over a rematerialized function; the cross-entropy by logsumexp."""

import jax
import jax.numpy as jnp


def chunked_loss(x, embedding, token_ids, pad_id, chunk):
    rows = len(token_ids) - 1
    chunks = -(-rows // chunk)
    index = jnp.arange(chunks * chunk).reshape(chunks, chunk)

    @jax.remat
    def one(index):
        valid = index < rows
        index = jnp.minimum(index, rows - 1)
        target = token_ids[index + 1]
        logits = x[index] @ embedding.T
        loss = jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, target[:, None], axis=-1)[:, 0]
        counts = valid & (target != pad_id)
        return jnp.where(counts, loss, 0).sum(), counts.sum()

    losses, counts = jax.lax.map(one, index)
    return losses.sum() / jnp.clip(counts.sum(), 1)
