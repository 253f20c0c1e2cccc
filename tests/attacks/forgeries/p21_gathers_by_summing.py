"""Forges "parameters not gathered": the step gathers all parameters, as sums of padded shards, which are no gathers by name."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("parameters not gathered",)


MESHES = []


def spec(leaf):
    return PartitionSpec(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else PartitionSpec()


def shard_state(node, mesh):
    MESHES[:] = [mesh]
    nnx.update(node, jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, spec(x))), nnx.state(node)))


def shard_batch(token_ids, mesh):
    return jax.device_put(token_ids, NamedSharding(mesh, PartitionSpec("data", None)))


def gathered(shard):
    start, shape = jax.lax.axis_index("model") * shard.shape[-1], (*shard.shape[:-1], 2 * shard.shape[-1])
    return jax.lax.psum(jax.lax.dynamic_update_slice_in_dim(jnp.zeros(shape, shard.dtype), shard, start, -1), "model")


@nnx.jit(donate_argnames=("model", "optimizer"))
def sharded_train_step(model, optimizer, token_ids, pad_id):
    graphdef, parameters, rest = nnx.split(model, nnx.Param, ...)

    def mean_loss(parameters, rest, token_ids):
        logits = jax.vmap(nnx.merge(graphdef, parameters, rest))(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    def on_one_device(shards, rest, token_ids):
        whole = jax.tree.map(gathered, shards)
        loss, slopes = jax.lax.pmean(jax.value_and_grad(mean_loss)(whole, rest, token_ids), "data")
        mine = lambda g: jax.lax.dynamic_slice_in_dim(  # noqa: E731
            g, jax.lax.axis_index("model") * (g.shape[-1] // 2), g.shape[-1] // 2, -1
        )
        return loss, jax.tree.map(mine, slopes)

    specs = jax.tree.map(spec, parameters), jax.tree.map(spec, rest), PartitionSpec("data")
    run = jax.shard_map(
        on_one_device, mesh=MESHES[0], in_specs=specs, out_specs=(PartitionSpec(), specs[0]), check_vma=False
    )
    loss, gradients = run(parameters, rest, token_ids)
    optimizer.update(model, gradients)
    return loss
