"""fori_loop and dynamic slices; clipping written out."""

import jax
import jax.numpy as jnp
import optax


def accumulated_gradients(loss_sum, parameters, token_ids, microbatches, max_norm):
    size = len(token_ids) // microbatches

    def body(i, carry):
        rows = jax.lax.dynamic_slice_in_dim(token_ids, i * size, size)
        (loss, n), grads = jax.value_and_grad(loss_sum, has_aux=True)(parameters, rows)
        return carry[0] + loss, carry[1] + n, optax.tree.add(carry[2], grads)

    loss, n, grads = jax.lax.fori_loop(0, microbatches, body, (0.0, 0, optax.tree.zeros_like(parameters)))
    grads = jax.tree.map(lambda g: g / n, grads)
    norm = optax.global_norm(grads)
    factor = jnp.where(norm > max_norm, max_norm / norm, 1.0)
    return loss / n, jax.tree.map(lambda g: factor * g, grads), norm
