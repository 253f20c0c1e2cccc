"""Full windows at once with `vmap`, the rest on its own; masks in place of slices."""

import jax
import jax.numpy as jnp
import optax


def losses(model, ids):
    return optax.softmax_cross_entropy_with_integer_labels(model(ids[:-1]), ids[1:])


def score_text(model, token_ids, context, stride):
    N = token_ids.shape[0]
    if N - 1 <= context:
        return -losses(model, token_ids) if N > 1 else jnp.zeros((0,), jnp.float32)
    full = (N - 1 - context) // stride + 1
    rows = jnp.arange(full)[:, None] * stride + jnp.arange(context + 1)
    loss = jax.vmap(lambda ids: losses(model, ids))(token_ids[rows])
    parts = [loss[0], loss[1:, context - stride :].reshape(-1)]
    done = (full - 1) * stride + context
    if done < N - 1:
        last = losses(model, token_ids[full * stride :])
        parts.append(last[done - full * stride :])
    return -jnp.concatenate(parts)


def perplexity(log_probs):
    return jnp.exp(jnp.sum(-log_probs) / log_probs.size)


def bits_per_byte(log_probs, token_ids, byte_lengths):
    return jnp.sum(-log_probs / jnp.log(2.0)) / jnp.take(byte_lengths, token_ids)[1:].sum()


def score_options(model, prompt_ids, options, context):
    def one(option):
        ids = jnp.append(prompt_ids, option)
        ids = ids[max(0, len(ids) - context - 1) :]
        counts = jnp.arange(1, len(ids)) >= len(ids) - len(option)
        return -(losses(model, ids) * counts).sum()

    return jnp.array([one(option) for option in options])


def choose_option(log_probs, byte_counts):
    both = jnp.stack([log_probs, log_probs / byte_counts])
    best = jnp.argmax(both, axis=1)
    return best[0], best[1]
