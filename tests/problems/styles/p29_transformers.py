"""The logits processors of `transformers`, written out: masks of -inf, and top-p from the least likely token up."""

import jax
import jax.numpy as jnp
import numpy as np


def sampling_distribution(logits, temperature, top_k, top_p):
    if temperature == 0.0:
        return jnp.zeros_like(logits).at[jnp.argmax(logits)].set(1.0)
    scores = logits / temperature
    if top_k:
        scores = jnp.where(scores < jax.lax.top_k(scores, min(top_k, scores.shape[-1]))[0][-1], -jnp.inf, scores)
    if top_p < 1.0:
        order = jnp.argsort(scores)
        removed = jnp.cumsum(jax.nn.softmax(scores[order])) <= 1 - top_p
        removed = removed.at[-1].set(False)  # at least one token is kept
        scores = jnp.where(jnp.zeros_like(removed).at[order].set(removed), -jnp.inf, scores)
    return jax.nn.softmax(scores)


def generate(model, prompt, num_tokens, context, stop_token, key, temperature, top_k, top_p):
    ids = [int(token) for token in prompt]
    for step in range(num_tokens):
        window = np.zeros(context, np.int32)
        window[: min(len(ids), context)] = ids[-context:]
        next_logits = model(jnp.asarray(window))[min(len(ids), context) - 1]
        odds = sampling_distribution(next_logits, temperature, top_k, top_p)
        token = int(jax.random.choice(jax.random.fold_in(key, step), len(odds), p=odds))
        if token == stop_token:
            break
        ids.append(token)
    return np.array(ids[len(prompt) :], np.int32)
