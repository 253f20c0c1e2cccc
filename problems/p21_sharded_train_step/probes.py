"""Probe of problem 21: three steps on a 4x2 mesh of eight CPU devices. Runs in workers."""

import functools
from typing import Any

import jax
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.compiled import gathered_bytes
from grader.worker.placement import bytes_on_device, mesh_of, place, places
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Reading, Subject
from grader.worker.toy_models import mid_training, model_factory


def sharded_training(subject: Subject, case: Case) -> Reading:
    """The sharding of state and batch, the results of three steps, whether the state is donated, and the gathered bytes."""
    values = case.values
    mesh = mesh_of(4, 2)
    model, optimizer = mid_training(model_factory(values["vocab_size"], values["d_model"], values["d_ff"]), case.seed)
    step = functools.partial(subject.call, "sharded_train_step")
    for node in (model, optimizer):
        subject.call("shard_state", node, mesh)
    arrays: dict[str, Any] = {
        **places(model, "placed.model", mesh),
        **places(optimizer, "placed.optimizer", mesh),
        "bytes_on_device": bytes_on_device((model, optimizer), mesh),
    }
    kind = jax.Array, "a jax.Array that holds the batch"
    batches = [subject.call("shard_batch", token_ids, mesh, returns=kind) for token_ids in values["token_ids"]]
    arrays["placed.batch"] = place(batches[0], mesh)

    before = [jax.tree.leaves(nnx.state(node)) for node in (model, optimizer)]
    losses = [step(model, optimizer, batch, values["pad_id"]) for batch in batches[:1]]
    donated = [all(leaf.is_deleted() for leaf in leaves) for leaves in before]
    losses += [step(model, optimizer, batch, values["pad_id"]) for batch in batches[1:]]
    if any(np.shape(loss) or not isinstance(loss, jax.Array) for loss in losses):
        raise BadOutputError("`sharded_train_step` must return the loss as a scalar jax.Array")
    return Reading(
        {
            **arrays,
            "losses": np.stack([np.asarray(loss) for loss in losses]),
            **named(nnx.state(model, nnx.Param), "parameters"),
            **places(model, "after.model", mesh),
            **places(optimizer, "after.optimizer", mesh),
            "donated.model": np.int32(donated[0]),
            "donated.optimizer": np.int32(donated[1]),
            "bytes_gathered": np.int32(
                _gathered(subject.attribute("sharded_train_step"), model, optimizer, batches[0], values["pad_id"])
            ),
        }
    )


def _gathered(step: Any, *args: Any) -> int:
    """The bytes that the compiled step gathers on each device."""
    lowerable = step if hasattr(step, "lower") else nnx.jit(step)
    return gathered_bytes(lowerable.lower(*args).compile().as_text())


PROBES = {"sharded_training": sharded_training}
