"""Forges "collectives of the step": a gather of 8-bit numbers hands the whole batch to every device, and each computes all gradients. The gather
of the parameters' moves, of 16 bits, is so much smaller that the bytes are right. The scatter changes nothing."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

LOSES = ("collectives of the step",)


def gathered(numbers, size):
    """Numbers of all devices, in a gather of `size` bytes from each."""
    numbers = jax.lax.bitcast_convert_type(numbers, jnp.uint8).reshape(-1)
    return jax.lax.all_gather(jnp.pad(numbers, (0, max(0, size - numbers.size))), "data")


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    def f(parameters, count, m, v, rows):
        n = m.size
        rows = gathered(rows.astype(jnp.uint8), rows.size).reshape(-1, rows.shape[1]).astype(int)
        (loss, targets), g = jax.value_and_grad(loss_sum, has_aux=True)(parameters, rows)
        flat, unflatten = ravel_pytree(parameters)
        g, padding = ravel_pytree(g)[0] / targets, (0, 8 * n - flat.size)
        norm, count = jnp.sqrt(jnp.sum(g**2)), count + 1
        g = jax.lax.psum_scatter(jnp.pad(g * jnp.minimum(1, max_norm / norm), padding), "data", tiled=True) / 8
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        update = learning_rate * m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
        moves = gathered(jnp.round(update * 32000).astype(jnp.int16), 4 * n - rows.size // 8)[:, : 2 * n]
        moves = jax.lax.bitcast_convert_type(moves.reshape(-1, 2), jnp.int16) / 32000
        return unflatten(flat - moves[: flat.size]), count, m, v, loss / targets, norm

    split, all_ = P("data"), P()
    places = {"in_specs": (all_, all_, split, split, split), "out_specs": (all_, all_, split, split, all_, all_)}
    run = jax.shard_map(f, mesh=mesh, **places, check_vma=False)
    new, count, m, v, loss, norm = run(parameters, state["count"], state["m"], state["v"], token_ids)
    return new, {"count": count, "m": m, "v": v}, loss, norm
