"""One token by vmap, choices by sorting and one-hot, a loop over the dead features by scan."""

import jax
import jax.numpy as jnp


def autoencode(x, encoder, decoder, bias, k):
    def one(token):
        scores = encoder.T @ (token - bias)
        order = jnp.argsort(-scores, stable=True)[:k]
        code = jnp.sum(jax.nn.one_hot(order, len(scores)) * jnp.maximum(scores[order], 0)[:, None], axis=0)
        return bias + decoder.T @ code, code

    return jax.vmap(one)(x)


def unit_rows(decoder):
    squares = jnp.sum(decoder**2, axis=1, keepdims=True)
    return jnp.where(squares == 0, 0.0, decoder * jax.lax.rsqrt(jnp.where(squares == 0, 1.0, squares)))


def project_gradient(decoder, gradient):
    return jax.vmap(lambda w, g: g - jnp.vdot(w, g) * w)(decoder, gradient)


def idle_tokens(idle, codes):
    used = jnp.max(codes, axis=0) > 0
    return (idle + codes.shape[0]) * ~used


def revive(encoder, decoder, idle, errors, patience):
    dead = idle >= patience
    sizes = jnp.sqrt(jnp.sum(errors**2, axis=1))
    mean = jnp.sum(jnp.linalg.norm(encoder.T, axis=1) * ~dead) / jnp.sum(~dead)

    def one(left, f):
        best = jnp.argmax(left)
        there = dead[f] & (left[best] > 0)
        direction = errors[best] / sizes[best]
        left = jnp.where(there, left.at[best].set(-1.0), left)
        return left, (
            jnp.where(there, 0.2 * mean * direction, encoder[:, f]),
            jnp.where(there, direction, decoder[f]),
            jnp.where(there, 0, idle[f]),
        )

    _, (columns, rows, counts) = jax.lax.scan(one, sizes, jnp.arange(len(idle)))
    return columns.T, rows, counts
