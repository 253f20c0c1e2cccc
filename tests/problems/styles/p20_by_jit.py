"""Arrays placed by a jitted identity with out_shardings; the table as a dictionary of layers."""

import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

TABLE = dict.fromkeys(["q_proj", "k_proj", "v_proj", "ff1"], -1) | dict.fromkeys(["out_proj", "ff2", "embed"], 0)


def make_mesh(data, model):
    return jax.sharding.Mesh(
        __import__("numpy").asarray(jax.devices()[: data * model]).reshape((data, model)), axis_names=("data", "model")
    )


def partition_spec(path, shape, mesh):
    *_, layer, leaf = ["", *path.split(".")]
    cut = TABLE.get(layer)
    if cut is None or (cut == 0 and leaf == "bias") or shape[cut] % mesh.shape["model"]:
        return PartitionSpec()
    spec = [None] * len(shape)
    spec[cut] = "model"
    return PartitionSpec(*spec)


def place(model, mesh):
    for path, node in nnx.iter_graph(model):
        if isinstance(node, nnx.Variable):
            spec = partition_spec(".".join(str(part) for part in path), node.shape, mesh)
            node[...] = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, spec))(node[...])
