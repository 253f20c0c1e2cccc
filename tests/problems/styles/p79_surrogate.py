"""The gradient by a surrogate: the policy gradient, with a coefficient for each token that is a constant."""

import jax
import jax.numpy as jnp


def masked(x, sampled):
    return jnp.where(sampled, x, 0.0)


def sampler_weights(old, sampler, sampled, kind, max_weight):
    log_w = jax.lax.stop_gradient(masked(old, sampled) - masked(sampler, sampled))
    if kind == "sequence":
        log_w = jnp.broadcast_to(log_w.sum(-1)[:, None], log_w.shape)
    return sampled * jnp.clip(jnp.exp(log_w), 0.0, max_weight)


def share(sampled, kind):
    """How much each token counts in the mean."""
    tokens = sampled.astype(jnp.float32)
    if kind == "token":
        return tokens / jnp.clip(tokens.sum(), 1)
    texts = sampled.any(axis=1).astype(jnp.float32)
    return tokens / jnp.clip(tokens.sum(axis=1, keepdims=True), 1) / jnp.clip(texts.sum(), 1)


def policy_loss(new, old, sampler, sampled, advantages, kind, clip_low, clip_high, max_weight):
    log_r = masked(new, sampled) - jax.lax.stop_gradient(masked(old, sampled))
    if kind == "sequence":
        # the same value in all tokens, each with the gradient of its own log-probability
        mean = log_r.sum(axis=1, keepdims=True) / jnp.clip(sampled.sum(axis=1, keepdims=True), 1)
        log_r = log_r + jax.lax.stop_gradient(mean - log_r)
    A = jnp.broadcast_to(advantages[:, None], log_r.shape)
    r = jnp.exp(log_r)
    loss = jnp.maximum(-A * r, -A * jnp.clip(r, 1 - clip_low, 1 + clip_high))
    weights = sampler_weights(old, sampler, sampled, kind, max_weight)
    return jnp.vdot(share(sampled, kind) * weights, loss)


def kl_loss(new, old, sampler, base, sampled, max_weight):
    new, old, base = masked(new, sampled), jax.lax.stop_gradient(masked(old, sampled)), masked(base, sampled)
    # exp(new - old) (exp(base - new) - (base - new) - 1), multiplied out
    kl = jnp.exp(base - old) - jnp.exp(new - old) * (base - new + 1)
    return jnp.vdot(share(sampled, "token") * sampler_weights(old, sampler, sampled, "token", max_weight), kl)


def penalized_rewards(rewards, old, base, sampled, kl_weight):
    return rewards - kl_weight * jnp.einsum("bt->b", masked(old, sampled) - masked(base, sampled))
