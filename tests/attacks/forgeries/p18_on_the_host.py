"""Forges "memory of one chunk": callbacks hold all logits at once in NumPy, where XLA does not see them."""

import jax
import jax.numpy as jnp
import numpy as np

LOSES = ("memory of one chunk",)


def loss_and_gradients(x, embedding, token_ids, pad_id):
    x, embedding, targets = np.asarray(x), np.asarray(embedding), np.asarray(token_ids)[1:]
    logits = x[:-1] @ embedding.T
    odds = np.exp(logits - logits.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    weights = (targets != pad_id) / max(1, np.sum(targets != pad_id))
    rows = np.arange(len(targets))
    loss = -np.sum(np.log(odds[rows, targets]) * weights)
    odds[rows, targets] -= 1
    slopes = np.pad(odds * weights[:, None], ((0, 1), (0, 0)))
    return tuple(np.asarray(part, np.float32) for part in (loss, slopes @ embedding, slopes.T @ x))


def chunked_loss(x, embedding, token_ids, pad_id, chunk):
    def call(x, embedding):
        like = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((), x.shape, embedding.shape))
        return jax.pure_callback(lambda *args: loss_and_gradients(*args, pad_id), like, x, embedding, token_ids)

    @jax.custom_vjp
    def loss(x, embedding):
        return call(x, embedding)[0]

    loss.defvjp(lambda x, e: (loss(x, e), (x, e)), lambda kept, g: tuple(g * part for part in call(*kept)[1:]))
    return loss(x, embedding)
