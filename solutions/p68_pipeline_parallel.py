"""Problem 68, reference: a pipeline of stages over devices (Huang et al. 2019, GPipe)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

P = PartitionSpec


def forward_schedule(stages: int, microbatches: int) -> Int[Array, "ticks stages"]:
    """The microbatch on which each stage works in each tick; -1 where it is idle."""
    microbatch = jnp.arange(microbatches + stages - 1)[:, None] - jnp.arange(stages)
    return jnp.where((microbatch >= 0) & (microbatch < microbatches), microbatch, -1)


def pipeline_step(
    stage: Callable[[PyTree, Float[Array, "B D"]], Float[Array, "B D"]],
    loss: Callable[[Float[Array, "B D"], Float[Array, "B D"]], Float[Array, ""]],
    parameters: PyTree,
    x: Float[Array, "M B D"],
    targets: Float[Array, "M B D"],
    mesh: Mesh,
) -> tuple[Float[Array, ""], PyTree]:
    """The mean loss of the microbatches, and its gradients: the backward pipeline is the derivative of the forward
    one."""
    stages, microbatches = mesh.shape["stage"], len(x)
    onward = [(device, device + 1) for device in range(stages - 1)]

    def on_one_device(parameters, x_MBD, targets_MBD):
        own, here = jax.tree.map(lambda array: array[0], parameters), jax.lax.axis_index("stage")

        def tick(so_far, t):
            received_BD, total = so_far
            own_BD = x_MBD[jnp.minimum(t, microbatches - 1)]
            y_BD = stage(own, jnp.where(here == 0, own_BD, received_BD))
            done = t - (stages - 1)  # the microbatch that leaves the last stage
            counts = (here == stages - 1) & (done >= 0)
            total = total + jnp.where(counts, loss(y_BD, targets_MBD[jnp.maximum(done, 0)]), 0)
            return (jax.lax.ppermute(y_BD, "stage", onward), total), None

        start = (jnp.zeros_like(x_MBD[0]), jnp.zeros(()))
        (_, total), _ = jax.lax.scan(tick, start, jnp.arange(microbatches + stages - 1))
        return jax.lax.psum(total, "stage") / microbatches

    split = P("stage")
    run = jax.shard_map(on_one_device, mesh=mesh, in_specs=(split, P(), P()), out_specs=P(), check_vma=False)
    return jax.value_and_grad(run)(parameters, x, targets)
