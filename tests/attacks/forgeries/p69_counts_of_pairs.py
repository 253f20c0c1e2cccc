"""Forges "collectives of the step": the loss knows pairs of tokens only, so small sums of how often each pair occurs,
of 8 bits each, hand the whole batch to every device, and each computes all gradients."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

LOSES = ("collectives of the step",)


def everything(rows, V):
    """How often each pair of tokens occurs on all devices."""
    first, second = (jax.nn.one_hot(ids.reshape(-1), V, dtype=int) for ids in (rows[:, :-1], rows[:, 1:]))
    own = jnp.pad((first.T @ second).reshape(-1), (0, -V * V % 16)).reshape(-1, 4, 4)
    words = [jax.lax.psum(jnp.sum(four << (8 * jnp.arange(4)), axis=1), "data") for four in own]
    return (jnp.stack(words)[..., None] >> (8 * jnp.arange(4)) & 255).reshape(-1)[: V * V]


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    V = len(parameters["embed"]) - 2
    every = jnp.stack(jnp.meshgrid(jnp.arange(V), jnp.arange(V), indexing="ij"), axis=-1).reshape(-1, 1, 2)

    def f(parameters, count, m, v, rows):
        n, here = m.size, jax.lax.axis_index("data")
        often = everything(rows, V)
        total = lambda parameters: often @ jax.vmap(lambda pair: loss_sum(parameters, pair)[0])(every)  # noqa: E731
        (loss, g), targets = jax.value_and_grad(total)(parameters), often.sum()
        flat, unflatten = ravel_pytree(parameters)
        g, padding = ravel_pytree(g)[0] / targets, (0, 8 * n - flat.size)
        norm, count = jnp.sqrt(jnp.sum(g**2)), count + 1
        g = jax.lax.psum_scatter(jnp.pad(g * jnp.minimum(1, max_norm / norm), padding), "data", tiled=True) / 8
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        update = learning_rate * m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
        own = jax.lax.dynamic_slice(jnp.pad(flat, padding), (here * n,), (n,)) - update
        new = jax.lax.all_gather(own, "data", tiled=True)
        return unflatten(new[: flat.size]), count, m, v, loss / targets, norm

    split, all_ = P("data"), P()
    places = {"in_specs": (all_, all_, split, split, split), "out_specs": (all_, all_, split, split, all_, all_)}
    run = jax.shard_map(f, mesh=mesh, **places, check_vma=False)
    new, count, m, v, loss, norm = run(parameters, state["count"], state["m"], state["v"], token_ids)
    return new, {"count": count, "m": m, "v": v}, loss, norm
