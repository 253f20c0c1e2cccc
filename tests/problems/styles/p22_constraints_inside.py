"""The state created under nnx.jit with sharding constraints; donation by position; the loss as one batched
expression."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def fsdp_spec(shape, devices):
    best = None
    for axis, size in enumerate(shape):
        if size % devices == 0 and (best is None or size > shape[best]):
            best = axis
    return P() if best is None else P(*[None] * best, "data")


def create_sharded(make, mesh):
    @nnx.jit
    def born():
        made = make()
        state = nnx.state(made)
        spec = lambda leaf: NamedSharding(mesh, fsdp_spec(leaf.shape, int(np.prod(mesh.devices.shape))))
        nnx.update(made, jax.lax.with_sharding_constraint(state, jax.tree.map(spec, state)))
        return made

    return born()


@nnx.jit(donate_argnums=(0, 1))
def fsdp_step(model, optimizer, token_ids, pad_id):
    def loss(model):
        logits = jax.vmap(model)(token_ids)[:, :-1]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(real.sum(1), 1))

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value
