"""State trees throughout; a jitted pure step whose out_shardings are the shardings of its inputs."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec
from p07_next_token_loss import next_token_loss


def fsdp_spec(shape, devices):
    fitting = sorted((-size, axis) for axis, size in enumerate(shape) if not size % devices)
    names = [None] * len(shape)
    if fitting:
        names[fitting[0][1]] = "data"
    return PartitionSpec(*names)


def create_sharded(make, mesh):
    structure = {}

    def pure():
        structure["graph"], state = nnx.split(make())
        return state

    shapes = jax.eval_shape(pure)
    places = jax.tree.map(lambda x: NamedSharding(mesh, fsdp_spec(x.shape, mesh.size)), shapes)
    return nnx.merge(structure["graph"], jax.jit(pure, out_shardings=places)())


def fsdp_step(model, optimizer, token_ids, pad_id):
    graph, state = nnx.split((model, optimizer))

    def step(state, token_ids):
        model, optimizer = nnx.merge(graph, state)

        def mean(model):
            return jnp.mean(jax.vmap(lambda ids: next_token_loss(model(ids), ids, pad_id))(token_ids))

        loss, gradients = nnx.value_and_grad(mean)(model)
        optimizer.update(model, gradients)
        return loss, nnx.state((model, optimizer))

    places = jax.tree.map(lambda x: x.sharding, state)
    loss, state = jax.jit(step, donate_argnums=0, out_shardings=(None, places))(state, token_ids)
    nnx.update((model, optimizer), state)
    return loss
