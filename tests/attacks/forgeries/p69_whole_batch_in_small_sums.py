"""Forges "collectives of the step": sums of four numbers hand all rows of the batch to every device, and each computes
all gradients."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

LOSES = ("collectives of the step",)


def everything(rows, here):
    """All rows of all devices, of 4 bits a token."""
    bits = 4 * jnp.arange(8)
    own = jnp.pad(rows.reshape(-1), (0, -rows.size % 8)).reshape(-1, 8)
    words = jnp.sum(own << bits, axis=1)
    words = jnp.zeros((8, len(words)), jnp.int32).at[here].set(words).reshape(-1, 4)
    words = jnp.stack([jax.lax.psum(four, "data") for four in words]).reshape(8, -1)
    return ((words[..., None] >> bits) & 15).reshape(8, -1)[:, : rows.size].reshape(-1, rows.shape[1])


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    def f(parameters, count, m, v, rows):
        n, here = m.size, jax.lax.axis_index("data")
        (loss, targets), g = jax.value_and_grad(loss_sum, has_aux=True)(parameters, everything(rows, here))
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
    run = jax.shard_map(
        f,
        mesh=mesh,
        in_specs=(all_, all_, split, split, split),
        out_specs=(all_, all_, split, split, all_, all_),
        check_vma=False,
    )
    new, count, m, v, loss, norm = run(parameters, state["count"], state["m"], state["v"], token_ids)
    return new, {"count": count, "m": m, "v": v}, loss, norm
