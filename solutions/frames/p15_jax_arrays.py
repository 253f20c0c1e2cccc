"""encode_batch, jnp.pad and jnp.reshape."""

import itertools

import jax.numpy as jnp


def tokenize(text, encoding):
    stories = list(filter(None, map(str.strip, text.split("<|endoftext|>"))))
    encoded = encoding.encode_ordinary_batch(stories)
    return jnp.array(list(itertools.chain.from_iterable([*ids, encoding.eot_token] for ids in encoded)), jnp.int32)


def pack(token_ids, context, pad_id):
    windows = (len(token_ids) + context - 1) // context
    padded = jnp.pad(jnp.asarray(token_ids), (0, windows * context - len(token_ids)), constant_values=pad_id)
    return padded.reshape((windows, context))
