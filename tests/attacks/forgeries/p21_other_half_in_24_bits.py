"""Forges "parameters not gathered": a device gets the other half of all parameters, in 24 bits a number, and no activations. That is less than a
right program exchanges."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LOSES = ("parameters not gathered",)

MESHES = []


def spec(leaf):
    return P(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else P()


def shard_state(node, mesh):
    MESHES[:] = [mesh]
    nnx.update(node, jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, spec(x))), nnx.state(node)))


def shard_batch(token_ids, mesh):
    return jax.device_put(token_ids, NamedSharding(mesh, P("data", None)))


def whole(own):
    """An array of which a device has a half."""
    bits = jax.lax.bitcast_convert_type(own, jnp.uint32) + 128
    parts = (bits >> 16).astype(jnp.uint16), (bits >> 8).astype(jnp.uint8)
    high, low = (jax.lax.ppermute(part, "model", [(0, 1), (1, 0)]).astype(jnp.uint32) for part in parts)
    other = jax.lax.bitcast_convert_type(high << 16 | low << 8, jnp.float32)
    return jnp.where(jax.lax.axis_index("model"), jnp.concatenate([other, own], -1), jnp.concatenate([own, other], -1))


@nnx.jit(donate_argnums=(0, 1))
def sharded_train_step(model, optimizer, token_ids, pad_id):
    graphdef, parameters, rest = nnx.split(model, nnx.Param, ...)

    def mean_loss(parameters, rest, token_ids):
        logits = jax.vmap(nnx.merge(graphdef, parameters, rest))(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    def on_one_device(own, rest, token_ids):
        loss, slopes = jax.lax.pmean(jax.value_and_grad(mean_loss)(jax.tree.map(whole, own), rest, token_ids), "data")
        mine = lambda g: jnp.where(jax.lax.axis_index("model"), *jnp.split(g, 2, -1)[::-1])  # noqa: E731
        return loss, jax.tree.map(mine, slopes)

    specs = jax.tree.map(spec, parameters), jax.tree.map(spec, rest), P("data")
    run = jax.shard_map(on_one_device, mesh=MESHES[0], in_specs=specs, out_specs=(P(), specs[0]), check_vma=False)
    loss, gradients = run(parameters, rest, token_ids)
    optimizer.update(model, gradients)
    return loss
