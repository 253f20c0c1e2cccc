"""The generic probes. Each turns a submission and a case into named arrays.

A probe is a function `probe(subject, case, **options) -> Reading`. The same function runs on the reference and on submissions.
"""

import contextlib
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, fill_module, named
from grader.worker.recorder import watching
from grader.worker.subject import Arrays, BadEntryError, Reading, Subject, constructing, is_tracing_error, run, static

MAX_DIFFERENCES = 120  # above this number of inputs, finite differences take too long


def values(
    subject: Subject, case: Case, *, entry: str, wrt: str | list[str] | None = None, fill: str | None = None
) -> Reading:
    """The output (`output.*`) and, if `wrt` is given, the gradient of a fixed random projection of it (`gradient.*`)."""
    call, parameters, arrays = subject.bind(entry, case)
    seen: Arrays = {}

    def forward(p: Any, x: Arrays) -> Arrays:
        with filling(subject, fill, case.seed, seen):
            return {**named(call(p, x), "output"), **seen}

    def with_gradient(p: Any, x: Arrays) -> tuple[Arrays, Any]:
        def projected(at: Any) -> tuple[Any, Arrays]:
            out = forward(at, x) if wrt == "parameters" else forward(p, {**x, **at})
            total = sum(jnp.sum(cotangent(path, leaf) * leaf) for path, leaf in out.items() if _is_float(leaf))
            return total, out

        at = p if wrt == "parameters" else {key: x[key] for key in wrt or ()}
        slope, out = jax.grad(projected, has_aux=True)(at)
        return out, slope

    program = forward if wrt is None else with_gradient
    key = ("values", entry, str(wrt), fill and case.seed, static(case))
    try:
        result, notes = run(subject.memo.setdefault(key, jax.jit(program)), parameters, arrays)
    except Exception as error:
        if wrt is None or isinstance(error, BadOutputError | BadEntryError | NotImplementedError):
            raise
        # The output alone may still be right.
        out, notes = run(forward, parameters, arrays)
        cause = f"jax.grad raised {type(error).__name__}, so it could not be trained"
        size = sum(arrays[key].size for key in wrt) if isinstance(wrt, list) else MAX_DIFFERENCES + 1
        if not is_tracing_error(error) or size > MAX_DIFFERENCES:
            return Reading(out, [*notes, f"no gradient: {cause}"])
        slope = differences(lambda x: forward(parameters, {**arrays, **x}), {key: arrays[key] for key in wrt})
        return Reading(
            {**out, **slope}, [*notes, f"its gradient was computed by finite differences: {cause}"], numeric=True
        )
    if wrt is None:
        return Reading(result, notes)
    return Reading({**result[0], **named(result[1], "gradient")}, notes)


def differences(forward: Callable[[Arrays], Arrays], at: Arrays) -> Arrays:
    """The gradient of the projected output by central differences of fourth order, for code that JAX cannot differentiate."""

    def projected(x: Arrays) -> float:
        out = forward({key: jnp.asarray(value) for key, value in x.items()})
        return float(sum(np.sum(cotangent(p, leaf).astype(float) * np.asarray(leaf, float)) for p, leaf in out.items()))

    def slope(key: str, index: tuple[int, ...]) -> float:
        def shifted(by: float) -> float:
            moved = at[key].copy()
            moved[index] += by
            return projected({**at, key: moved})

        h = 0.02  # rounding errors grow as 1/h, truncation as h^4: about 1e-4 each for float32 values of order one
        return (8 * (shifted(h) - shifted(-h)) - (shifted(2 * h) - shifted(-2 * h))) / (12 * h)

    return {
        f"gradient.{key}": np.array([slope(key, index) for index in np.ndindex(x.shape)], np.float32).reshape(x.shape)
        for key, x in at.items()
    }


def parameters(subject: Subject, case: Case, *, entry: str, initial: list[str]) -> Reading:
    """The filled parameters of a module by path, and the initial values of those named in `initial` (`initial.*`)."""
    _, state, _ = subject.build(entry, case)
    arrays = named(state, "")
    if initial:
        make = subject.constructor(entry, case)

        def initial_values() -> Arrays:
            values = named(nnx.state(make(), nnx.Param), "")
            return {f"initial.{path}": values[path] for path in initial if path in values}

        arrays |= run(initial_values)[0]
    return Reading(arrays)


def dependence(subject: Subject, case: Case, *, entry: str, argument: str) -> Reading:
    """The dependence of outputs on inputs over time, (T, T): 1 at (t, s) if changing input s changes any bit of output t."""
    call, parameters, arrays = subject.bind(entry, case)

    def forward(p: Any, x: Arrays) -> Any:
        return named(call(p, x), "output")

    program, x = jax.jit(forward), arrays[argument]
    base, notes = run(program, parameters, arrays)
    if any(np.shape(out)[:1] != x.shape[:1] for out in base.values()):
        raise BadOutputError("the output's first axis must be time, like the input's")
    columns = []
    for s in range(len(x)):
        moved = x.copy()
        moved[s] = 0.5 - 1.5 * moved[s]
        out, _ = run(program, parameters, {**arrays, argument: moved})
        changed = [np.asarray(out[path]) != np.asarray(base[path]) for path in base]
        columns.append(np.any([change.reshape(len(change), -1).any(-1) for change in changed], axis=0))
    return Reading({"depends": np.stack(columns, axis=1).astype(np.int32)}, notes)


def compiled(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The outputs under jit on two inputs of the same shapes, and the number of traces of both calls together."""
    call, parameters, arrays = subject.bind(entry, case)
    traces = 0

    def forward(p: Any, x: Arrays) -> Arrays:
        nonlocal traces
        traces += 1
        return named(call(p, x), "output")

    try:
        jitted = jax.jit(forward)
        first = jitted(parameters, arrays)
        second = jitted(parameters, {key: np.flip(x) for key, x in arrays.items()})
    except Exception as error:
        if not is_tracing_error(error):
            raise
        raise BadOutputError(
            f"cannot be traced by jax.jit ({type(error).__name__}): it needs the concrete value of an array"
        ) from None
    return Reading(
        {**{f"first.{path}": x for path, x in first.items()}, **{f"second.{path}": x for path, x in second.items()}}
        | {"compilations": np.int32(traces)}
    )


def submodules(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The inputs and outputs of each named submodule (`values.*`), the gradients there (`slopes.*`), and the number of its calls
    (`calls.*`). Runs eagerly.

    The gradients are those of the same random projection of the output as in `values`, with respect to zeros that are added
    to each input and output.
    """
    graphdef, parameters, rest = subject.build(entry, case)
    inputs = [case.values[key] for key in subject.problem.entry(entry).arguments]
    arguments = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
    seen: Arrays = {}
    calls: dict[str, int] = {}

    def record(name: str, value: Any) -> Any:
        if not isinstance(value, jax.core.Tracer):  # inside a loop or a nested jit, it has no single value
            seen[f"values.{name}"] = value
        return value

    def run_with(watch: Callable[[str, Any], Any]) -> Any:
        module = nnx.merge(graphdef, parameters, rest)
        with watching(module, watch) as recorder:
            result = module(*arguments)
        calls.update(recorder.counts())
        return result

    out = run_with(record)
    counts = {f"calls.{path}": np.int32(count) for path, count in calls.items()}
    if not _is_float(out):
        return Reading({**seen, **counts})
    zeros = {name: jnp.zeros_like(value) for name, value in seen.items() if _is_float(value)}

    def projected(added: Arrays) -> Any:
        def shifted(name: str, value: Any) -> Any:
            return value + added[f"values.{name}"] if f"values.{name}" in added else value

        return jnp.sum(cotangent("output", out) * run_with(shifted))

    try:
        slopes = jax.grad(projected)(zeros)
    except Exception:  # code that cannot be differentiated still has values
        slopes = {}
    slopes_by_name = {name.replace("values.", "slopes.", 1): slope for name, slope in slopes.items()}
    return Reading({**seen, **slopes_by_name, **counts})


def filling(subject: Subject, name: str | None, seed: int, seen: Arrays) -> contextlib.AbstractContextManager[None]:
    """Inside the context, fills the parameters of every `name` that is constructed.

    The output then does not depend on the order in which the entry draws from `rngs`. The key that it draws from becomes a
    leaf of the output instead, so the seed still matters.
    """
    seen.clear()
    if name is None:
        return contextlib.nullcontext()
    return constructing(subject.attribute(name), lambda module: fill_module(module, seed), seen)


def cotangent(path: str, like: Any) -> np.ndarray[Any, Any]:
    """A fixed random cotangent for the output leaf at `path`."""
    shape = np.shape(like)
    seed = int.from_bytes(hashlib.sha256(f"cotangent:{path}".encode()).digest()[:8], "big")
    normal: np.ndarray[Any, Any] = np.random.default_rng(seed).standard_normal(shape).astype(jnp.result_type(like))
    return normal


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


GENERIC: Mapping[str, Callable[..., Reading]] = {
    "values": values,
    "parameters": parameters,
    "dependence": dependence,
    "compiled": compiled,
    "submodules": submodules,
}
