"""One row at a time, with `jax.vmap`. Each kind has a function of its own."""

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient


def sampler_weights(old, sampler, sampled, kind, max_weight):
    def of_tokens(old, sampler, sampled):
        gap = jnp.where(sampled, old, 0.0) - jnp.where(sampled, sampler, 0.0)
        return jnp.exp(jnp.clip(gap, max=jnp.log(max_weight))) * sampled

    def of_text(old, sampler, sampled):
        gap = jnp.sum(old - sampler, where=sampled)
        return jnp.where(sampled, jnp.clip(jnp.exp(gap), max=max_weight), 0.0)

    row = {"token": of_tokens, "sequence": of_text}[kind]
    return jax.vmap(row)(stop_gradient(old), stop_gradient(sampler), sampled)


def policy_loss(new, old, sampler, sampled, advantages, kind, clip_low, clip_high, max_weight):
    old, sampler = stop_gradient((old, sampler))
    weights = sampler_weights(old, sampler, sampled, kind, max_weight)

    def gain_of(log_ratio, advantage):
        ratio = jnp.exp(log_ratio)
        stopped = jnp.where(advantage > 0, jnp.minimum(ratio, 1 + clip_high), jnp.maximum(ratio, 1 - clip_low))
        return stopped * advantage

    def of_tokens(new, old, sampled, advantage, weights):
        return jnp.sum(weights * gain_of(jnp.where(sampled, new - old, 0.0), advantage)), jnp.sum(sampled)

    def of_text(new, old, sampled, advantage, weights):
        count = jnp.maximum(sampled.sum(), 1)
        return weights.max() * gain_of(jnp.sum(new - old, where=sampled) / count, advantage), sampled.any().astype(int)

    row = of_tokens if kind == "token" else of_text
    gains, counts = jax.vmap(row)(new, old, sampled, advantages, weights)
    return -gains.sum() / jnp.maximum(counts.sum(), 1)


def kl_loss(new, old, sampler, base, sampled, max_weight):
    def row(new, old, sampler, base, sampled):
        new, old, base = (jnp.where(sampled, x, -1.0) for x in (new, stop_gradient(old), base))
        ratio = jnp.exp(new) / jnp.exp(old)
        back = jnp.exp(base - new)
        return ratio * (back - jnp.log(back) - 1)

    weights = sampler_weights(old, sampler, sampled, "token", max_weight)
    estimates = jax.vmap(row)(new, old, sampler, base, sampled)
    return jnp.sum(weights * estimates) / jnp.clip(sampled.sum(), 1)


def penalized_rewards(rewards, old, base, sampled, kl_weight):
    def row(reward, old, base, sampled):
        return reward - kl_weight * (jnp.sum(old, where=sampled) - jnp.sum(base, where=sampled))

    return jax.vmap(row)(rewards, old, base, sampled)
