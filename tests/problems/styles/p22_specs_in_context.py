"""The state created in one nnx.jit with plain specs, which get their mesh from the context."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P
from p07_next_token_loss import next_token_loss


def fsdp_spec(shape, devices):
    fitting = [size if size % devices == 0 else -1 for size in shape]
    if max(fitting, default=-1) < 0:
        return P(*[None for _ in shape])
    cut = fitting.index(max(fitting))
    return P(*["data" if axis == cut else None for axis in range(len(shape))])


def create_sharded(make, mesh):
    @nnx.jit
    def create():
        pair = make()
        for node in pair:
            state = nnx.state(node)
            specs = jax.tree.map(lambda leaf: fsdp_spec(leaf.shape, mesh.shape["data"]), state)
            nnx.update(node, jax.lax.with_sharding_constraint(state, specs))
        return pair

    with jax.set_mesh(mesh):
        return create()


@nnx.jit(donate_argnums=(0, 1))
def fsdp_step(model, optimizer, token_ids, pad_id):
    def mean(model):
        return jnp.mean(jax.vmap(lambda ids: next_token_loss(model(ids), ids, pad_id))(token_ids))

    loss, gradients = nnx.value_and_grad(mean)(model)
    optimizer.update(model, gradients)
    return loss
