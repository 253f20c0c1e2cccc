"""The gradients are summed by jax.grad; the mesh is set around shard_map; the features come first."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def device(x, layer):
        h = jax.nn.relu(transposed(layer["w1"]) @ x.T + layer["b1"][:, None])
        return (layer["b2"][:, None] + jax.lax.psum(transposed(layer["w2"]) @ h, "model")).T

    layer = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    specs = {"w1": P(None, "model"), "b1": P("model"), "w2": P("model"), "b2": P()}
    with jax.set_mesh(mesh):
        return jax.shard_map(device, in_specs=(P(), specs), out_specs=P())(x, layer)


def transposed(w):
    return jnp.swapaxes(w, 0, 1)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    @jax.jit
    def row(x, w1, b1, w2):
        return jnp.dot(jax.nn.relu(jnp.dot(x, w1) + b1), w2)

    def device(x, w1, b1, w2, b2):
        everything = jax.lax.all_gather(x, "model", axis=0, tiled=True)
        parts = jax.vmap(row, (0, None, None, None))(everything, w1, b1, w2)
        return jax.lax.psum_scatter(parts, "model", tiled=True) + b2

    specs = (P("model"), P(None, "model"), P("model"), P("model"), P())
    return jax.shard_map(device, mesh=mesh, in_specs=specs, out_specs=P("model"))(x, w1, b1, w2, b2)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    def device(parameters, rows):
        total, count = loss_sum(parameters, rows)
        slope = jax.grad(lambda p: loss_sum(p, rows)[0])(parameters)
        count = jax.lax.psum(count, "data")
        return jax.lax.psum(total, "data") / count, jax.tree.map(lambda g: g / count, slope)

    return jax.shard_map(device, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())(parameters, token_ids)
