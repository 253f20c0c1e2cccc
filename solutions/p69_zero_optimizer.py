"""Problem 69, reference: Adam with its state split over the devices (Rajbhandari et al. 2020, ZeRO, stage 1)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

P = PartitionSpec
B1, B2, EPSILON = 0.9, 0.999, 1e-8


def zero_state(parameters: PyTree, mesh: Mesh) -> dict[str, Array]:
    """No step yet, and moments of 0 for the padded flat parameters, split over `data`."""
    devices = mesh.shape["data"]
    size = sum(x.size for x in jax.tree.leaves(parameters))
    padded = size + -size % devices
    split = NamedSharding(mesh, P("data"))
    m, v = (jax.device_put(jnp.zeros(padded), split) for _ in range(2))
    return {"count": jnp.zeros((), jnp.int32), "m": m, "v": v}


def zero_step(
    loss_sum: Callable[[PyTree, Int[Array, "b T"]], tuple[Float[Array, ""], Int[Array, ""]]],
    parameters: PyTree,
    state: dict[str, Array],
    token_ids: Int[Array, "B T"],
    mesh: Mesh,
    learning_rate: float,
    max_norm: float,
) -> tuple[PyTree, dict[str, Array], Float[Array, ""], Float[Array, ""]]:
    """Each device sums, updates and sends on the part of the parameters whose moments it has."""

    def on_one_device(parameters, count, m_n, v_n, token_ids_bT):
        (loss, targets), gradients = jax.value_and_grad(loss_sum, has_aux=True)(parameters, token_ids_bT)
        loss, targets = jax.lax.psum((loss, targets), "data")

        n, here = m_n.size, jax.lax.axis_index("data")
        flat, unflatten = ravel_pytree(parameters)
        padding = (0, n * mesh.shape["data"] - flat.size)
        gradient_N = jnp.pad(ravel_pytree(gradients)[0], padding)
        gradient_n = jax.lax.psum_scatter(gradient_N, "data", tiled=True) / targets
        norm = jnp.sqrt(jax.lax.psum(jnp.sum(jnp.square(gradient_n)), "data"))
        gradient_n = gradient_n * jnp.minimum(1, max_norm / norm)

        count = count + 1
        m_n = B1 * m_n + (1 - B1) * gradient_n
        v_n = B2 * v_n + (1 - B2) * jnp.square(gradient_n)
        mean_n, square_n = m_n / (1 - B1**count), v_n / (1 - B2**count)
        update_n = learning_rate * mean_n / (jnp.sqrt(square_n) + EPSILON)

        own_n = jax.lax.dynamic_slice(jnp.pad(flat, padding), (here * n,), (n,))
        new_N = jax.lax.all_gather(own_n - update_n, "data", tiled=True)
        return unflatten(new_N[: flat.size]), count, m_n, v_n, loss / targets, norm

    split = P("data")
    run = jax.shard_map(
        on_one_device, mesh=mesh, in_specs=(P(), P(), split, split, split),
        out_specs=(P(), P(), split, split, P(), P()),
        check_vma=False,
    )  # fmt: skip
    new, count, m, v, loss, norm = run(parameters, state["count"], state["m"], state["v"], token_ids)
    return new, {"count": count, "m": m, "v": v}, loss, norm
