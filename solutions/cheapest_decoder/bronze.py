"""A cache of one array for each block, so that no part of it is copied, and one run for the whole prompt."""

import jax
import jax.numpy as jnp

WRITTEN, HEADS, LAYERS, EPSILON = 128, 4, 3, 1e-6


def norm(weights, name, x):
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    scale = weights[f"{name}.scale"] * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON)
    return x * scale + weights[f"{name}.bias"]


def linear(weights, name, x):
    return x @ weights[f"{name}.kernel"] + weights[f"{name}.bias"]


def scores(weights, cache, tokens, position):
    """The logits (N, V) after each of N tokens that begin at a position, and the cache with them: keys
    and values (T, D) of each block, as arrays of their own."""
    N, T, cache = len(tokens), len(cache[0][0]), list(cache)
    visible = jnp.arange(T) <= position + jnp.arange(N)[:, None]
    x = weights["embed.embedding"].at[tokens].get(mode="promise_in_bounds")
    x = x + jax.lax.dynamic_slice_in_dim(weights["pos_embed"], position, N)
    for i in range(LAYERS):
        block = f"blocks.{i}"
        normal = norm(weights, f"{block}.ln1", x)
        q, k, v = (linear(weights, f"{block}.attn.{name}_proj", normal) for name in "qkv")
        cache[i] = [
            jax.lax.dynamic_update_slice(old, new, (position, 0)) for old, new in zip(cache[i], (k, v), strict=True)
        ]
        q, keys, values = (x.reshape(len(x), HEADS, -1) for x in (q, *cache[i]))
        attention = jnp.einsum("nhk,thk->hnt", q, keys) / jnp.sqrt(q.shape[-1])
        attention = jax.nn.softmax(jnp.where(visible, attention, -1e9))
        mixed = jnp.einsum("hnt,thk->nhk", attention, values).reshape(N, -1)
        x = x + linear(weights, f"{block}.attn.out_proj", mixed)
        hidden = jax.nn.relu(linear(weights, f"{block}.ff1", norm(weights, f"{block}.ln2", x)))
        x = x + linear(weights, f"{block}.ff2", hidden)
    return norm(weights, "ln_f", x) @ weights["embed.embedding"].T, cache


def chosen(logits, key, greedy):
    """A token from each row of logits, int32 (N,)."""
    noise = jax.lax.cond(greedy, lambda: jnp.zeros(logits.shape), lambda: jax.random.gumbel(key, logits.shape))
    return jnp.argmax(logits + noise, axis=-1).astype(jnp.int32)


def empty_cache(T, D):
    return [[jnp.zeros((T, D))] * 2 for _ in range(LAYERS)]


def decode(weights, prompt, key, greedy):
    P = len(prompt)
    cache = empty_cache(P + WRITTEN, weights["pos_embed"].shape[1])
    logits, cache = scores(weights, cache, prompt, 0)
    first = chosen(logits[-1:], jax.random.fold_in(key, 0), greedy)

    def write(carried, number):
        cache, token = carried
        logits, cache = scores(weights, cache, token, P + number - 1)
        token = chosen(logits, jax.random.fold_in(key, number), greedy)
        return (cache, token), token[0]

    _, others = jax.lax.scan(write, (cache, first), jnp.arange(1, WRITTEN))
    return jnp.concatenate([first, others])
