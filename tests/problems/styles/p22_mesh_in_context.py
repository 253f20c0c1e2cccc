"""The state created while the mesh is set; the step pinned to the shardings that its inputs have outside jit."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def fsdp_spec(shape, devices):
    cut = next(
        (axis for axis in sorted(range(len(shape)), key=lambda i: -shape[i]) if shape[axis] % devices == 0), None
    )
    return P(*["data" if axis == cut else None for axis in range(len(shape))])


def create_sharded(make, mesh):
    graph, abstract = nnx.split(nnx.eval_shape(make))
    places = jax.tree.map(lambda x: NamedSharding(mesh, fsdp_spec(x.shape, mesh.shape["data"])), abstract)
    with jax.set_mesh(mesh):
        return nnx.merge(graph, jax.jit(lambda: nnx.state(make()), out_shardings=places)())


@nnx.jit(donate_argnums=(0, 1))
def step(model, optimizer, token_ids, pad_id):
    def loss(model):
        targets = token_ids[:, 1:]
        losses = optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(token_ids)[:, :-1], targets)
        real = targets != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(real.sum(1), 1))

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def fsdp_step(model, optimizer, token_ids, pad_id):
    places = [jax.tree.map(lambda x: x.sharding, nnx.state(node)) for node in (model, optimizer)]
    loss = step(model, optimizer, token_ids, pad_id)
    for node, place in zip((model, optimizer), places):
        nnx.update(node, jax.device_put(nnx.state(node), place))
    return loss
