"""Probes of problem 22: specs, a sharded creation, and three steps on eight CPU devices. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker.placement import bytes_on_device, mesh_of, places
from grader.worker.pytrees import BadOutputError, fill_module, named
from grader.worker.subject import Reading, Subject
from grader.worker.toy_models import CallCounter, ToyLM, model_factory

SHAPES = ((32, 48), (48, 32), (16, 16), (64, 7), (7, 64), (17, 16), (10, 6), (8,), (7,), (),
          (2, 24, 16), (3, 5), (8, 4096))  # fmt: skip


def specs(subject: Subject, case: Case) -> Reading:
    """The spec of each shape in SHAPES, for eight and for two devices."""
    arrays: dict[str, Any] = {}
    for devices in (8, 2):
        for shape in SHAPES:
            spec = subject.call("fsdp_spec", shape, devices)
            if not isinstance(spec, PartitionSpec) or len(spec) > len(shape):
                raise BadOutputError(
                    f"`fsdp_spec` returned {spec!s:.60} for the shape {shape}; it must return a PartitionSpec for it"
                )
            names = [*spec, *[None] * len(shape)][: len(shape)]
            name = "x".join(map(str, shape)) or "scalar"
            arrays[f"spec.{name}_on_{devices}"] = np.array([part in ("data", ("data",)) for part in names], np.int32)
    return Reading(arrays)


def training(subject: Subject, case: Case) -> Reading:
    """The sharding of the new state and of the trained one, its initial values, and the results of three steps."""
    values, mesh = case.values, mesh_of(8)
    make = CallCounter(model_factory(values["vocab_size"], values["d_model"], values["d_ff"], drawn=True))
    created = subject.call("create_sharded", make, mesh)
    if not (isinstance(created, tuple | list) and len(created) == 2 and isinstance(created[0], ToyLM)):
        raise BadOutputError("`create_sharded` must return the pair (model, optimizer)")
    model, optimizer = created
    arrays: dict[str, Any] = {
        **places(model, "placed.model", mesh),
        **places(optimizer, "placed.optimizer", mesh),
        "bytes_on_device": bytes_on_device((model, optimizer), mesh),
        "real_calls_of_make": np.int32(make.real_calls),
        **jax.tree.map(np.asarray, named(nnx.state(model, nnx.Param), "initial")),
    }
    shardings = jax.tree.map(lambda leaf: leaf.sharding, nnx.state(model, nnx.Param))
    fill_module(model, case.seed)
    nnx.update(model, jax.device_put(nnx.state(model, nnx.Param), shardings))
    batches = jax.device_put(jnp.asarray(values["token_ids"]), NamedSharding(mesh, PartitionSpec(None, "data")))
    before = [[x for x in jax.tree.leaves(nnx.state(node)) if x.ndim] for node in (model, optimizer)]
    losses = []
    for number in range(len(batches)):
        losses.append(subject.call("fsdp_step", model, optimizer, batches[number], values["pad_id"]))
        if number == 0:
            donated = [all(leaf.is_deleted() for leaf in leaves) for leaves in before]
    if any(np.shape(loss) or not isinstance(loss, jax.Array) for loss in losses):
        raise BadOutputError("`fsdp_step` must return the loss as a scalar jax.Array")
    return Reading(
        {
            **arrays,
            "losses": np.stack([np.asarray(loss) for loss in losses]),
            **named(nnx.state(model, nnx.Param), "parameters"),
            **places(model, "after.model", mesh),
            **places(optimizer, "after.optimizer", mesh),
            "donated.model": np.int32(donated[0]),
            "donated.optimizer": np.int32(donated[1]),
        }
    )


PROBES = {"specs": specs, "training": training}
