"""Probes of problem 22: specs, a sharded creation, and a step on eight CPU devices. Runs in workers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import (
    Arrays,
    BadOutputError,
    Execution,
    Reading,
    Subject,
    ToyLM,
    given,
    mesh_of,
    model_factory,
    named,
    stablehlo,
    stages,
    step,
    trace_of,
)
from grader.problem import Case

DEVICES = 8
MOST_WRITTEN = 200  # numbers in the text of a creation: random bits and normal numbers take 100 constants
MOST_MADE = 3  # times the sharded state: the reference makes 2.3 times as much, with random bits


def shapes(case: Case) -> list[tuple[int, ...]]:
    """Shapes with every kind of longest axis: divisible or not, first, last or in the middle, tied, or missing."""
    short, long, odd, V, D = (int(case.values[name]) for name in ("short", "long", "odd", "vocab_size", "d_model"))
    return [
        (short, long), (long, short), (long, long), (short, odd), (odd, short), (long + 1, short), (short, long + 1),
        (odd, odd),
        (long,), (odd,), (8,), (2,), (1,), (), (2, long, short), (long, 2, long), (0, long), (3, 5),
        (V, D), (D, V), (V,), (1, 3, 1, D),
    ]  # fmt: skip


def specs(subject: Subject, case: Case) -> Reading:
    """The spec of each of the case's shapes, for eight devices, for two, for one, and for six: no power of two."""
    arrays: Arrays = {}
    for devices in (8, 2, 1, 6):
        for shape in shapes(case):
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
    """The values of a new state, and all that was created and not used. Raises BadOutputError if `make` runs outside
    jit, where it would create whole arrays."""
    state: Arrays = {}

    def create() -> list[Any]:
        outside = trace_of(jnp.zeros(()))

        def then(made: Any) -> None:
            if trace_of(*jax.tree.leaves(nnx.state(made))) is outside:
                raise BadOutputError("`make` ran outside jit, where it creates every array whole on one device")

        with stablehlo.placements_are_traced():
            model, optimizer = _created(subject, case, drawn=True, then=then)
        state.update(named(nnx.state(model), "initial.model") | named(nnx.state(optimizer), "initial.optimizer"))
        return list(state.values())

    def program() -> Arrays:
        # A compiler drops what no output depends on. Outside a trace, it would be created.
        closed = jax.make_jaxpr(create)()
        used = {id(variable) for part in (*closed.jaxpr.eqns, closed.jaxpr) for variable in getattr(part, "invars", ())}
        used |= {id(variable) for variable in closed.jaxpr.outvars}
        unused = [
            variable for equation in closed.jaxpr.eqns for variable in equation.outvars if id(variable) not in used
        ]
        results = jax.extend.core.jaxpr_as_fun(
            closed.replace(jaxpr=closed.jaxpr.replace(outvars=[*closed.jaxpr.outvars, *unused], debug_info=None))
        )()
        names = [*state, *(f"unused.{number}" for number in range(len(unused)))]
        return dict(zip(names, results, strict=True))

    return subject.run(program, case)


def created(execution: Execution) -> Arrays:
    """The mesh axes over which each array of a new state is split. An array counts as on one device if it depends on a
    program that holds too much there: an array that is not split although it could be, or more numbers than a sharded
    creation needs."""
    compiled = execution.compiled
    shapes = {
        n: shape for n, shape in enumerate(compiled.output_shapes) if compiled.program.outputs[n].startswith("initial.")
    }
    parts = {n: _part(shape) for n, shape in shapes.items()}
    widths = stablehlo.result_widths(compiled.parsed)
    axes = {n: np.zeros(len(shape), np.int32) for n, shape in shapes.items()}
    # Arrays that were made before the program are its inputs, or stand in it as constants: no results, no temporary
    # memory.
    before = compiled.program.inputs or stablehlo.numbers_written(compiled.parsed) > MOST_WRITTEN
    whole = set(shapes) if before or len(compiled.devices) != DEVICES else set[int]()
    for stage in stages(compiled) if not whole else ():
        for array in stage.arrays:
            axes |= dict.fromkeys(array.returned & set(axes), array.axes)
            # Nothing needs to be longer than the longest part, and what can be split must be.
            if math.prod(array.part) > min(_part(array.shape), max(parts.values())):
                whole |= array.outputs or set(shapes)
        # XLA may hold two parts side by side, and a program may return a copy of the state that it takes.
        if stage.largest > 2 * max(parts.values()) or stage.held > 3 * sum(parts.values()):
            whole |= set(shapes)
        # All parts of an array at once are as much as the whole array. Random bits take a little more than what is made
        # of them.
        if stage.made > MOST_MADE * sum(parts[n] * widths[n] for n in parts):
            whole |= set(shapes)
    return {
        compiled.program.outputs[n]: np.full(len(shape), -1, np.int32)
        if n in whole and parts[n] < math.prod(shape)
        else axes[n]
        for n, shape in shapes.items()
    }


def _part(shape: tuple[int, ...]) -> int:
    """The number of elements of an array that each device holds if it is sharded as the page says."""
    return math.prod(shape) // (DEVICES if any(size % DEVICES == 0 for size in shape) else 1)


def training(subject: Subject, case: Case) -> Reading:
    """The results of one step on a state that is placed like a new one."""
    mesh = mesh_of(DEVICES)
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

    created = subject.call("create_sharded", make, mesh_of(DEVICES))
    if [type(part) for part in created] != [ToyLM, nnx.Optimizer]:
        raise BadOutputError("`create_sharded` must return the pair (model, optimizer)")
    return created


PROBES = {"specs": specs, "creating": creating, "training": training}
MEASURES = {"created": created}
