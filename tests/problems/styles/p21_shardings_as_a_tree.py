"""One device_put for a whole tree of shardings; the step as a plain function, compiled and donated at the end."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def shard_state(node, mesh):
    state = nnx.state(node)
    shardings = jax.tree.map(lambda x: NamedSharding(mesh, P(*([None] * x.ndim)[:-1], *["model"][: x.ndim])), state)
    nnx.update(node, jax.device_put(state, shardings))


def shard_batch(token_ids, mesh):
    return jax.device_put(jnp.asarray(token_ids), NamedSharding(mesh, P("data")))


def step(model, optimizer, ids, pad_id):
    def loss(model):
        targets = ids[:, 1:]
        mask = targets != pad_id
        losses = optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(ids)[:, :-1], targets)
        return jnp.mean(jnp.sum(losses * mask, 1) / jnp.maximum(mask.sum(1), 1))

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


sharded_train_step = nnx.jit(step, donate_argnums=(0, 1))
