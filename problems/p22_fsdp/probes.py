"""Probes of problem 22: specs, a sharded creation, and a step on eight CPU devices. Runs in workers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker.placement import mesh_of, step
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.toy_models import ToyLM, model_factory
from grader.worker.tracing import given, trace_of

SHAPES = ((32, 48), (48, 32), (16, 16), (64, 7), (7, 64), (17, 16), (10, 6), (8,), (7,), (),
          (2, 24, 16), (3, 5), (8, 4096))  # fmt: skip


def specs(subject: Subject, case: Case) -> Reading:
    """The spec of each shape in SHAPES, for eight and for two devices."""
    arrays: Arrays = {}
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
    return subject.run(lambda: arrays, case)


def creating(subject: Subject, case: Case) -> Reading:
    """The values of a new state. Raises BadOutputError if `make` runs outside jit, where it would create whole arrays."""

    def program() -> Arrays:
        outside = trace_of(jnp.zeros(()))

        def then(made: Any) -> None:
            if trace_of(*jax.tree.leaves(nnx.state(made))) is outside:
                raise BadOutputError("`make` ran outside jit, where it creates every array whole on one device")

        model, optimizer = _created(subject, case, drawn=True, then=then)
        return named(nnx.state(model), "initial.model") | named(nnx.state(optimizer), "initial.optimizer")

    return subject.run(program, case)


def training(subject: Subject, case: Case) -> Reading:
    """The results of one step on a state that is placed like a new one."""
    mesh = mesh_of(8)
    model, optimizer = _created(subject, case, drawn=False)
    token_ids = replace(given(case, "token_ids"), sharding=NamedSharding(mesh, PartitionSpec("data")))
    return step(subject, case, "fsdp_step", model, optimizer, token_ids, mesh)


def _created(subject: Subject, case: Case, *, drawn: bool, then: Callable[[Any], None] = lambda made: None) -> Any:
    """The model and the optimizer that `create_sharded` returns. Raises BadOutputError if it returns something else.

    `then` gets what each call of `make` returns.
    """
    values = case.values
    factory = model_factory(values["vocab_size"], values["d_model"], values["d_ff"], drawn=drawn)

    def make() -> Any:
        made = factory()
        then(made)
        return made

    created = subject.call("create_sharded", make, mesh_of(8))
    if [type(part) for part in created] != [ToyLM, nnx.Optimizer]:
        raise BadOutputError("`create_sharded` must return the pair (model, optimizer)")
    return created


PROBES = {"specs": specs, "creating": creating, "training": training}
