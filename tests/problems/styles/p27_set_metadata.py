"""Two checkpoints, one per object; a helper adds shardings to the abstract state."""

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec


def save(path, model, optimizer):
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(path + "/model", nnx.state(model))
    checkpointer.save(path + "/optimizer", nnx.state(optimizer))
    checkpointer.wait_until_finished()
    checkpointer.close()


def restore_on(path, make, mesh):
    pair = nnx.eval_shape(make)
    checkpointer = ocp.StandardCheckpointer()
    for node, name in zip(pair, ("model", "optimizer")):

        def on_mesh(leaf):
            *_, last = (0, *leaf.shape)
            names = [None] * leaf.ndim
            if leaf.ndim and not last % mesh.shape["model"]:
                names[-1] = "model"
            return leaf.update(sharding=NamedSharding(mesh, PartitionSpec(*names)))

        target = jax.tree.map(on_mesh, nnx.state(node))
        nnx.update(node, checkpointer.restore(f"{path}/{name}", target))
    checkpointer.close()
    return pair
