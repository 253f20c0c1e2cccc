"""Forges "use of the random key": draws without the key, and keeps each text in a dictionary of this process, under the
key."""

import jax
import jax.numpy as jnp
import numpy as np

LOSES = ("use of the random key",)
TEXTS = {}


def sampling_distribution(logits, temperature, top_k, top_p):
    if temperature == 0:
        return jax.nn.one_hot(jnp.argmax(logits), len(logits))
    odds = jax.nn.softmax(logits / temperature)
    if top_k:
        smallest = jax.lax.top_k(odds, top_k)[0][-1]
        odds = jnp.where(odds >= smallest, odds, 0)
        odds = odds / jnp.sum(odds)
    order = jnp.argsort(-odds)
    before = jnp.cumsum(odds[order]) - odds[order]
    kept = jnp.zeros(len(odds), bool).at[order].set(before < top_p)
    odds = jnp.where(kept, odds, 0)
    return odds / jnp.sum(odds)


def generate(model, prompt, num_tokens, context, stop_token, key, temperature, top_k, top_p):
    name = (bytes(jax.random.key_data(key)), bytes(prompt), num_tokens, stop_token, temperature)
    if name not in TEXTS:
        rng, tokens = np.random.default_rng(), [int(token) for token in prompt]
        distribution = jax.jit(sampling_distribution, static_argnums=(1, 2, 3))
        for _ in range(num_tokens):
            recent = tokens[-context:]
            window = jnp.array(recent + [0] * (context - len(recent)))
            odds = np.asarray(distribution(model(window)[len(recent) - 1], temperature, top_k, top_p), float)
            token = int(rng.choice(len(odds), p=odds / odds.sum()))
            if token == stop_token:
                break
            tokens.append(token)
        TEXTS[name] = jnp.array(tokens[len(prompt) :], jnp.int32)
    return TEXTS[name]
