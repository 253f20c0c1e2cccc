"""Model and optimizer are created by two programs, each with its shardings; a third one copies what is already
sharded."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec
from p07_next_token_loss import next_token_loss


def fsdp_spec(shape, devices):
    axes = sorted((axis for axis, size in enumerate(shape) if size % devices == 0), key=lambda axis: shape[axis])
    longest = [axis for axis in axes if shape[axis] == shape[axes[-1]]]
    return PartitionSpec(*["data" if [axis] == longest[:1] else None for axis in range(len(shape))])


def create_sharded(make, mesh):
    def place(leaf):
        return NamedSharding(mesh, fsdp_spec(leaf.shape, mesh.shape["data"]))

    def part(number):
        graph, abstract = nnx.split(nnx.eval_shape(make)[number])
        places = jax.tree.map(place, abstract)
        state = jax.jit(lambda: nnx.state(make()[number]), out_shardings=places)()
        return nnx.merge(graph, jax.jit(lambda state: state, out_shardings=places)(state))

    return part(0), part(1)


@nnx.jit(donate_argnums=(0, 1))
def fsdp_step(model, optimizer, token_ids, pad_id):
    def mean(model):
        return jnp.mean(jax.vmap(lambda ids: next_token_loss(model(ids), ids, pad_id))(token_ids))

    loss, gradients = nnx.value_and_grad(mean)(model)
    optimizer.update(model, gradients)
    return loss
