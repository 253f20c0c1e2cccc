"""A list of rules of which the first match wins; nnx.state mapped with paths; the mesh from an array of devices."""

import re

import jax
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RULES = [
    (r"(q_proj|k_proj|v_proj|ff1)\.kernel$", P(None, "model")),
    (r"(q_proj|k_proj|v_proj|ff1)\.bias$", P("model")),
    (r"(out_proj|ff2)\.kernel$", P("model")),
    (r"embedding$", P("model", None)),
    (r".*", P()),
]


def make_mesh(data, model):
    grid = np.array(jax.devices()[: data * model]).reshape(data, model)
    return Mesh(grid, ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def partition_spec(path, shape, mesh):
    spec = next(spec for pattern, spec in RULES if re.search(pattern, path))
    sizes = [1 if name is None else mesh.shape[name] for name in spec]
    return spec if all(n % size == 0 for n, size in zip(shape, sizes)) else P()


def place(model, mesh):
    state = nnx.state(model)

    def sharding(path, leaf):
        names = [str(getattr(key, "key", getattr(key, "name", ""))) for key in path]
        names = [name for name in names if name != "value"]
        return NamedSharding(mesh, partition_spec(".".join(names), leaf.shape, mesh))

    nnx.update(model, jax.device_put(state, jax.tree_util.tree_map_with_path(sharding, state)))
