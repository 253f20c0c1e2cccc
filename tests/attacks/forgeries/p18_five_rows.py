"""Forges "no more parts than chunks": does not use `chunk`, and takes a few rows at a time, with as few operations as
it can."""

import jax
import jax.numpy as jnp

LOSES = ("no more parts than chunks",)
ROWS = 5


def chunked_loss(x, embedding, token_ids, pad_id, chunk):
    missing = -(len(token_ids) - 1) % ROWS
    rows = jnp.pad(x[:-1], ((0, missing), (0, 0))).reshape(-1, ROWS, x.shape[1])
    targets = jnp.pad(token_ids[1:], (0, missing), constant_values=pad_id)
    wanted = jnp.sum(rows.reshape(-1, x.shape[1]) * embedding[targets], 1)  # outside of the loop
    real = targets != pad_id

    @jax.checkpoint
    def normalizers(row):
        return jnp.log(jnp.sum(jnp.exp(row @ embedding.T), 1))

    losses = jax.lax.map(normalizers, rows).reshape(-1) - wanted
    return jnp.sum(losses * real) / jnp.maximum(jnp.sum(real), 1)
