"""Logits masked with minus infinity; jax.random.choice and fold_in instead of categorical and split."""

import jax
import jax.numpy as jnp
import numpy as np


def sampling_distribution(logits, temperature, top_k, top_p):
    if temperature <= 0:
        return (jnp.arange(logits.size) == logits.argmax()).astype(jnp.float32)
    logits = logits / temperature
    if 0 < top_k < logits.size:
        logits = jnp.where(logits < jnp.sort(logits)[-top_k], -jnp.inf, logits)
    order = jnp.argsort(logits)[::-1]
    cumulative = jnp.cumsum(jax.nn.softmax(logits[order]))
    keep = jnp.concatenate([jnp.array([True]), (cumulative[:-1] < top_p) | (top_p == 1)])
    return jax.nn.softmax(jnp.where(keep[jnp.argsort(order)], logits, -jnp.inf))


def generate(model, prompt, num_tokens, context, stop_token, key, temperature, top_k, top_p):
    out, text = [], np.asarray(prompt)
    while len(out) < num_tokens:
        tail = text[-context:]
        ids = np.zeros(context, np.int32)
        ids[: tail.size] = tail
        p = sampling_distribution(model(jnp.asarray(ids))[tail.size - 1], temperature, top_k, top_p)
        token = int(jax.random.choice(jax.random.fold_in(key, len(out)), p.size, p=p))
        if token == stop_token:
            return np.array(out, np.int32)
        out.append(token)
        text = np.append(text, token)
    return np.array(out, np.int32)
