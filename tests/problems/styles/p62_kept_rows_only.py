"""Only the rows of the kept features are read; dead features by a padded `nonzero` and a scatter that drops."""

import jax
import jax.numpy as jnp


def autoencode(x, encoder, decoder, bias, k):
    scores = x @ encoder - bias @ encoder
    values, places = jax.lax.top_k(scores, k)
    values = jnp.where(values > 0, values, 0)
    out = jnp.einsum("nk,nkd->nd", values, decoder[places]) + bias
    codes = jax.vmap(lambda v, p: jnp.zeros(scores.shape[1]).at[p].add(v))(values, places)
    return out, codes


def unit_rows(decoder):
    lengths = jnp.linalg.norm(decoder, axis=-1)
    return jnp.where((lengths > 0)[:, None], decoder / jnp.maximum(lengths, 1e-30)[:, None], decoder)


def project_gradient(decoder, gradient):
    along = jnp.diag(gradient @ decoder.T)
    return gradient - jnp.diag(along) @ decoder


def idle_tokens(idle, codes):
    return jax.lax.select((codes > 0).sum(axis=0) == 0, idle + codes.shape[0], jnp.zeros_like(idle))


def revive(encoder, decoder, idle, errors, patience):
    N, F = errors.shape[0], idle.shape[0]
    dead = jnp.greater_equal(idle, patience)
    (features,) = jnp.nonzero(dead, size=N, fill_value=F)
    lengths, order = jax.lax.top_k(jnp.linalg.norm(errors, axis=1), N)
    directions = errors[order] / lengths[:, None]
    columns = jnp.linalg.norm(encoder, axis=0)
    size = jnp.where(dead, 0, columns).sum() / jnp.where(dead, 0, 1).sum() * 0.2
    return (
        encoder.at[:, features].set((size * directions).T, mode="drop"),
        decoder.at[features].set(directions, mode="drop"),
        idle.at[features].set(0, mode="drop"),
    )
