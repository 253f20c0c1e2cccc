"""A table of which window scores which target, and one logit minus a logsumexp for each."""

import math

import jax.numpy as jnp
from jax.scipy.special import logsumexp


def score_text(model, token_ids, context, stride):
    N = len(token_ids)
    rows, scores = {}, []
    for target in range(1, N):
        k = max(0, -(-(target - context) // stride))
        if k not in rows:
            rows[k] = model(token_ids[k * stride : min(k * stride + context, N - 1)])
        row = rows[k][target - 1 - k * stride]
        scores.append(row[token_ids[target]] - logsumexp(row))
    return jnp.array(scores, dtype=jnp.float32)


def perplexity(log_probs):
    return jnp.power(jnp.float32(math.e), -log_probs.mean())


def bits_per_byte(log_probs, token_ids, byte_lengths):
    count = sum(byte_lengths[token] for token in token_ids[1:])
    return -log_probs.sum() * math.log2(math.e) / count


def score_options(model, prompt_ids, options, context):
    result = []
    for option in options:
        ids = [*prompt_ids, *option]
        read = jnp.stack(ids[:-1][-context:])
        logits = model(read)[-len(option) :]
        result.append(sum(row[token] - logsumexp(row) for row, token in zip(logits, option, strict=True)))
    return jnp.stack(result)


def choose_option(log_probs, byte_counts):
    per_byte = log_probs / byte_counts.astype(jnp.float32)
    return tuple(jnp.argmax(x == x.max()).astype(jnp.int32) for x in (log_probs, per_byte))
