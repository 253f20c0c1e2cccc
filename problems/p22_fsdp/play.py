"""Problem 22, played: a model and an optimizer in eight parts, made and trained by the learner's code."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.exhibits import Bar, Bars
from grader.worker.placement import mesh_of
from problems.stage import devices, runs

PAD = -1


def play(module):
    """What each device holds, what the devices send in a step, and the losses of a few steps."""
    mesh = mesh_of(8, axes=("data",))
    model, optimizer = module.create_sharded(runs.make, mesh)
    named = [(".".join(map(str, path)), variable[...]) for path, variable in nnx.to_flat_state(nnx.state(model))]
    yield devices.placed(
        "The arrays of a model, as your code made them on eight devices",
        [each for each in named if each[1].ndim],
        "An eighth of everything, of the moments of the optimizer, too. No device ever held the whole model.",
    )
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state((model, optimizer))))
    yield Bars(
        "Model and optimizer on each device",
        tuple(
            Bar(f"device {at}", held, whole)
            for at, held in enumerate(devices.bytes_on_each(jax.tree.leaves(nnx.state((model, optimizer)))))
        ),
        "bytes",
        names=("held", "in all"),
    )
    ids_BT = jax.device_put(jnp.asarray(runs.ROWS[:16]), NamedSharding(mesh, PartitionSpec("data", None)))
    yield devices.step(
        module.fsdp_step, model, optimizer, ids_BT, PAD,
        "Each layer is gathered when it is needed, and its gradients are summed, so that each device keeps its part.",
    )  # fmt: skip
    yield devices.losses(module.fsdp_step, model, optimizer, ids_BT, PAD)
