"""The generic probes. Each turns a submission and a case into named arrays.

A probe is a function `probe(subject, case, **options) -> Reading`. The same function runs on the reference and on
submissions.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import UNCHECKED, Case
from grader.worker.cache_probes import decoding, with_mask
from grader.worker.pytrees import BadOutputError, fill_state, kinds, named
from grader.worker.recorder import watching
from grader.worker.remedies import remedy
from grader.worker.subject import Arrays, BadEntryError, ConstructedError, Reading, Subject, constructing, to_fill
from grader.worker.tracing import (
    Given,
    UntraceableError,
    as_outside_jit,
    given,
    is_array,
    is_tracing_error,
    numbers,
    trace_of,
)

MAX_DIFFERENCES = 200  # above this number of inputs, finite differences take too long


def values(
    subject: Subject, case: Case, *, entry: str, wrt: str | list[str] | None = None, fill: str | None = None
) -> Reading:
    """Returns the output (`output.*`) and, if `wrt` is given, the gradient of a fixed random projection of it
    (`gradient.*`)."""
    call, parameters, arrays = subject.bind(entry, case)
    given = _constructed(subject, fill, call, parameters, arrays)

    def forward(p: Any, x: Arrays, filled: Arrays) -> Arrays:
        with filling(subject, fill, filled) as seen:
            outputs: Arrays = {**named(call(p, x), "output"), **seen}
            return outputs

    def with_gradient(p: Any, x: Arrays, filled: Arrays) -> Arrays:
        def projected(at: Any) -> tuple[Any, Arrays]:
            out = forward(at, x, filled) if wrt == "parameters" else forward(p, {**x, **at}, filled)
            total = sum(jnp.sum(cotangent(path, leaf) * leaf) for path, leaf in out.items() if _is_float(leaf))
            return total, out

        at = p if wrt == "parameters" else {key: x[key] for key in wrt or ()}
        slope, out = jax.grad(projected, has_aux=True)(at)
        both: Arrays = out | named(slope, "gradient")
        return both

    if wrt is None:
        return subject.run(forward, case, parameters, arrays, given)
    try:
        return subject.run(with_gradient, case, parameters, arrays, given)
    except (BadOutputError, BadEntryError, NotImplementedError, RecursionError):
        raise
    except Exception as error:
        # The output alone may still be right.
        note = f"no gradient: jax.grad raised {_raised(error)}, so it could not be trained"
        if clause := remedy(error):
            note += f"; {clause}"
        reading = subject.run(forward, case, parameters, arrays, given, notes=[note])
        size = sum(arrays[key].size for key in wrt) if isinstance(wrt, list) else MAX_DIFFERENCES + 1
        if not subject.eager or not is_tracing_error(error) or size > MAX_DIFFERENCES:
            return reading
        p, x, filled = numbers((parameters, arrays, given), case)
        slope = differences(lambda at: forward(p, {**x, **at}, filled), {key: x[key] for key in wrt})
        cause = note.removeprefix("no gradient: ")
        notes = [*reading.notes[1:], f"its gradient was computed by finite differences: {cause}"]
        return Reading(reading.arrays | slope, notes, numeric=True)


def differences(forward: Callable[[Arrays], Arrays], at: Arrays) -> Arrays:
    """Returns the gradient of the projected output by central differences of fourth order, for code that JAX cannot
    differentiate."""

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
    """Returns the parameters of a module by path, filled, and the initial values of those named in `initial`
    (`initial.*`).

    Also returns the paths of its plain arrays, unchecked: an array that should be a parameter is another mistake than a
    missing one.
    """
    _, state, rest = subject.build(entry, case)
    make = subject.constructor(entry, case)
    plain = [".".join(map(str, path)) for path, leaf in nnx.to_flat_state(rest) if not isinstance(leaf, nnx.Variable)]
    unchecked = {UNCHECKED + path: jnp.int32(0) for path in plain}

    def tree(state: Any) -> Arrays:
        values = named(nnx.state(make(), nnx.Param), "") if initial else {}
        return named(state, "") | {f"initial.{path}": values[path] for path in initial if path in values} | unchecked

    return subject.run(tree, case, state)


def dependence(subject: Subject, case: Case, *, entry: str, argument: str) -> Reading:
    """Returns the dependence of outputs on inputs over time, (T, T): 1 at (t, s) if changing input s changes any bit of
    output t.

    Also the output, which must be that of the probe `values`.
    """
    call, parameters, arrays = subject.bind(entry, case)

    def program(p: Any, x: Arrays) -> Arrays:
        inputs, T = x[argument], len(x[argument])

        def outputs(s: Any) -> list[Any]:
            moved = jnp.where((jnp.arange(T) == s).reshape(T, *[1] * (inputs.ndim - 1)), 0.5 - 1.5 * inputs, inputs)
            leaves = list(named(call(p, {**x, argument: moved}), "output").values())
            if any(jnp.shape(leaf)[:1] != (T,) for leaf in leaves):
                raise BadOutputError("the output's first axis must be time, like the input's")
            return [jnp.asarray(leaf).reshape(T, -1) for leaf in leaves]

        # One loop computes them all, also the unchanged ones (s = T), because another program could round differently.
        if subject.eager:  # no loop of JAX can run code that cannot be traced
            leaves = [jnp.stack(columns) for columns in zip(*map(outputs, range(T + 1)), strict=True)]
        else:
            leaves = jax.lax.map(outputs, jnp.arange(T + 1))
        changed = [jnp.any(leaf[:T] != leaf[T:], axis=-1) for leaf in leaves]
        depends = jnp.any(jnp.stack(changed), axis=0).T.astype(jnp.int32)
        return {"depends": depends, **named(call(p, x), "output")}

    return subject.run(program, case, parameters, arrays)


def compiled(subject: Subject, case: Case, *, entry: str) -> Reading:
    """Returns the outputs of one program on two inputs of the same shapes. Raises BadOutputError if the entry cannot be
    traced."""
    call, parameters, arrays = subject.bind(entry, case)
    forward = jax.jit(lambda p, x: named(call(p, x), "output"))

    def program(p: Any, x: Arrays) -> Arrays:
        both = {"first": forward(p, x), "second": forward(p, {key: jnp.flip(array) for key, array in x.items()})}
        return {f"{name}.{path}": leaf for name, leaves in both.items() for path, leaf in leaves.items()}

    try:
        return subject.run(program, case, parameters, arrays)
    except UntraceableError as error:
        raise BadOutputError(f"{error}: it needs the concrete value of an array") from None


def submodules(subject: Subject, case: Case, *, entry: str) -> Reading:
    """Returns the inputs and outputs of each named submodule (`values.*`), the gradients there (`slopes.*`), and the
    number of its calls (`calls.*`).

    The gradients are those of the same random projection of the output as in `values`, with respect to zeros that are
    added to each input and output.
    """
    graphdef, parameters, rest = subject.build(entry, case)
    values = case.values
    arguments = {key: given(case, key) if is_array(values[key]) else values[key]
                 for key in subject.problem.entry(entry).arguments}  # fmt: skip
    arrays = {key: value for key, value in arguments.items() if isinstance(value, Given)}

    def program(parameters: Any, arrays: Arrays) -> Arrays:
        seen: Arrays = {}
        calls: dict[str, int] = {}

        def run_with(watch: Callable[[str, Any], Any]) -> Any:
            module = nnx.merge(graphdef, parameters, rest)
            with watching(module, watch) as recorder:
                result = module(*{**arguments, **arrays}.values())
            calls.update(recorder.counts())
            return result

        level = trace_of(*jax.tree.leaves((parameters, arrays)))

        def record(name: str, value: Any) -> Any:
            if trace_of(value) in (level, None):  # inside a loop or a nested jit, it has no single value
                seen[f"values.{name}"] = value
            return value

        out = run_with(record)
        counts = {f"calls.{path}": np.int32(count) for path, count in calls.items()}
        if not _is_float(out):
            return seen | counts
        zeros = {name: jnp.zeros_like(value) for name, value in seen.items() if _is_float(value)}

        def projected(added: Arrays) -> Any:
            def shifted(name: str, value: Any) -> Any:
                return value + added[f"values.{name}"] if f"values.{name}" in added else value

            return jnp.sum(cotangent("output", out) * run_with(shifted))

        try:
            slopes = jax.grad(projected)(zeros)
        except Exception:  # code that cannot be differentiated still has values
            slopes = {}
        return seen | {name.replace("values.", "slopes.", 1): slope for name, slope in slopes.items()} | counts

    return subject.run(program, case, parameters, arrays)


@contextlib.contextmanager
def filling(subject: Subject, name: str | None, values: Arrays | None) -> Iterator[Arrays]:
    """Sets the parameters of every `name` that is constructed within the context to `values`, by path.

    The output then does not depend on the order in which the entry draws from `rngs`. Yields more leaves of the output:
    the key that the module draws from, so the seed still matters.
    """
    seen: Arrays = {}
    if name is None:
        yield seen
        return

    def fill(module: nnx.Module) -> None:
        if values is not None:
            state = nnx.state(module, nnx.Param)
            own = {".".join(map(str, path)): leaf.get_raw_value() for path, leaf in nnx.to_flat_state(state)}
            nnx.update(module, fill_state(state, lambda path, *kind: values.get(_filled(path, *kind), own[path])))

    with constructing(subject.attribute(name), fill, seen):
        yield seen


def _constructed(subject: Subject, name: str | None, call: Any, parameters: Any, arrays: Arrays) -> Arrays:
    """Returns the parameters, still to be filled, of the first `name` that the call constructs."""
    found: Arrays = {}
    if name is None:
        return found

    def stop(module: nnx.Module) -> None:
        for path, shape, dtype in kinds(nnx.state(module, nnx.Param)):
            found[_filled(path, shape, dtype)] = to_fill(path, shape, dtype)
        raise ConstructedError(module)

    def look(p: Any, x: Arrays) -> None:
        with constructing(subject.attribute(name), stop):
            call(p, x)

    with contextlib.suppress(Exception, ConstructedError), as_outside_jit():  # the real run raises any other again
        jax.eval_shape(look, *jax.tree.map(Given.spec, (parameters, arrays)))
    return found


def _filled(path: str, shape: tuple[int, ...], dtype: Any) -> str:
    """Returns the name under which a program is given the parameter at `path`."""
    return f"{path}{shape}{dtype}"


def cotangent(path: str, like: Any) -> np.ndarray[Any, Any]:
    """Returns a fixed random cotangent for the output leaf at `path`."""
    shape = np.shape(like)
    seed = int.from_bytes(hashlib.sha256(f"cotangent:{path}".encode()).digest()[:8], "big")
    normal: np.ndarray[Any, Any] = np.random.default_rng(seed).standard_normal(shape).astype(jnp.result_type(like))
    return normal


def _raised(error: Exception) -> str:
    """Returns the name of an exception, or of its cause, unless that is only JAX's note on the place."""
    cause = error.__cause__
    return type(error if cause is None or type(cause).__name__.startswith("JaxStackTrace") else cause).__name__


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


GENERIC: Mapping[str, Callable[..., Reading]] = {
    "values": values,
    "parameters": parameters,
    "dependence": dependence,
    "compiled": compiled,
    "submodules": submodules,
    "decoding": decoding,
    "with_mask": with_mask,
}
