"""The text as an array that grows by `jnp.append`, outside of jit; ranks; tokens drawn by inverting the cumulative
sum."""

import jax
import jax.numpy as jnp


def keep(p, mask):
    p = p * mask
    return p / p.sum()


def sampling_distribution(logits, temperature, top_k, top_p):
    ranks = jnp.argsort(jnp.argsort(logits, descending=True))
    if temperature == 0:
        return (ranks == 0).astype(jnp.float32)
    p = jax.nn.softmax(logits / temperature)
    if top_k:
        p = keep(p, ranks < top_k)
    if top_p < 1:
        ordered = jnp.zeros_like(p).at[ranks].set(p)
        p = keep(p, ranks < 1 + (jnp.cumsum(ordered) < top_p).sum())
    return p


def generate(model, prompt, num_tokens, context, stop_token, key, temperature, top_k, top_p):
    text = prompt
    while len(text) < len(prompt) + num_tokens:
        recent = text[-context:]
        padding = jnp.zeros(context - len(recent), jnp.int32)
        logits = model(jnp.concatenate([recent, padding]))[len(recent) - 1]
        p = sampling_distribution(logits, temperature, top_k, top_p)
        u = jax.random.uniform(jax.random.fold_in(key, len(text)), maxval=p.sum())
        token = jnp.searchsorted(jnp.cumsum(p), u, side="right")
        if token == stop_token:
            break
        text = jnp.append(text, token.astype(jnp.int32))
    return text[len(prompt) :]
