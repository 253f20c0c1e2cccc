"""Arrays placed one by one with nnx.iter_graph; donation by position; the loss as one batched expression."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def shard_state(node, mesh):
    for _, variable in nnx.iter_graph(node):
        if isinstance(variable, nnx.Variable):
            value = variable[...]
            spec = P(*(None,) * (value.ndim - 1), "model") if value.ndim else P()
            variable.set_value(jax.device_put(value, NamedSharding(mesh, spec)))


def shard_batch(token_ids, mesh):
    return jax.device_put(jnp.asarray(token_ids), NamedSharding(mesh, P(("data",))))


@nnx.jit(donate_argnums=(0, 1))
def sharded_train_step(model, optimizer, token_ids, pad_id):
    real = (token_ids[:, 1:] != pad_id).astype(jnp.float32)

    def loss(model):
        logits = jax.vmap(model)(token_ids)[:, :-1]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, token_ids[:, 1:])
        return (jnp.sum(losses * real, axis=1) / jnp.maximum(real.sum(axis=1), 1)).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value
