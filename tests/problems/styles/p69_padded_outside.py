"""Pads outside of `shard_map`; the device's part is a row of the parameters; moments by differences."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec


def zero_state(parameters, mesh):
    flat, _ = ravel_pytree(parameters)
    D = mesh.shape["data"]
    moments = jnp.zeros((2, -(-flat.shape[0] // D) * D))
    here = NamedSharding(mesh, PartitionSpec("data"))
    return {"m": jax.device_put(moments[0], here), "v": jax.device_put(moments[1], here), "count": jnp.int32(0)}


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    N = state["m"].shape[0]
    flat, unravel = ravel_pytree(parameters)
    padded = jnp.zeros(N).at[: flat.size].set(flat)

    def f(whole, m, v, t, ids):
        (loss, targets), g = jax.value_and_grad(lambda w: loss_sum(unravel(w[: flat.size]), ids), has_aux=True)(whole)
        g = lax.psum_scatter(g, "data", scatter_dimension=0, tiled=True)
        loss, targets = lax.psum(loss, "data"), lax.psum(targets, "data")
        g = g / targets
        norm = jnp.sqrt(lax.psum((g**2).sum(), "data"))
        g *= lax.select(norm > max_norm, max_norm / norm, jnp.ones_like(norm))
        m, v, t = m + 0.1 * (g - m), v + 0.001 * (g * g - v), t + 1
        own = whole.reshape(-1, m.size)[lax.axis_index("data")]
        t_float = t.astype(jnp.float32)
        step = (m / (1 - 0.9**t_float)) / (1e-8 + jnp.sqrt(v / (1 - 0.999**t_float)))
        return lax.all_gather(own - learning_rate * step, "data", tiled=True), m, v, t, loss / targets, norm

    all_, part = PartitionSpec(), PartitionSpec("data")
    specs = {"in_specs": (all_, part, part, all_, part), "out_specs": (all_, part, part, all_, all_, all_)}
    new, m, v, t, loss, norm = jax.shard_map(f, mesh=mesh, check_vma=False, **specs)(
        padded, state["m"], state["v"], state["count"], token_ids
    )
    return unravel(new[: flat.size]), {"count": t, "m": m, "v": v}, loss, norm
