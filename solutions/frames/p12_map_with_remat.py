"""One backward pass through a scan with a checkpointed body, which keeps the microbatches but not their activations."""

import jax
import jax.numpy as jnp
import optax


def accumulated_gradients(loss_sum, parameters, token_ids, microbatches, max_norm):
    parts = jnp.reshape(token_ids, (microbatches, token_ids.shape[0] // microbatches, token_ids.shape[1]))

    def mean(parameters):
        @jax.checkpoint
        def body(totals, rows):
            loss, count = loss_sum(parameters, rows)
            return (totals[0] + loss, totals[1] + count), None

        (loss, count), _ = jax.lax.scan(body, (jnp.zeros(()), jnp.zeros((), jnp.int32)), parts)
        return loss / count

    loss, grads = jax.value_and_grad(mean)(parameters)
    clipped, _ = optax.clip_by_global_norm(max_norm).update(grads, optax.EmptyState())
    return loss, clipped, optax.tree.norm(grads)
