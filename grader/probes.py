"""The generic probes: each turns a submission and a case into named arrays. Imports JAX; runs in workers only.

A probe is `probe(subject, case, **options) -> Reading`. It runs unchanged on the reference and on a submission.
"""

import contextlib
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from commandline.spelling import nearest
from grader import parts as parts_
from grader.leaves import BadOutput, described, fill_module, fill_state, named
from grader.problem import Case, Entry, Problem

Arrays = dict[str, Any]
MOST_DIFFERENCES = 120  # inputs that are worth moving one by one


class BadEntry(Exception):
    """The graded name is missing or cannot be called as the page says; the message says how to repair it."""


class _MadeError(BaseException):
    """Leaves an entry as soon as it has constructed the module that is wanted."""

    def __init__(self, module: nnx.Module) -> None:
        self.module = module


@dataclass(frozen=True)
class Reading:
    """What a probe saw: arrays by path, and notes for the learner."""

    arrays: Arrays
    notes: list[str] = field(default_factory=list)
    numeric: bool = False  # its gradient is by finite differences, and only so exact


@dataclass
class Subject:
    """A loaded file, as probes see it.

    `memo` keeps what depends on a case's numbers and shapes alone, so that cases that differ only in the elements of their
    arrays share one trace and one compilation. `elsewhere(probe, options)` runs a probe of this problem on the same file and
    case in another process and returns its arrays, where the problem's probes ask for one with `TWIN = True`. `say(text)`
    tells whoever waits how far a long probe is.
    """

    problem: Problem
    namespace: dict[str, Any]
    memo: dict[Any, Any] = field(default_factory=dict)
    elsewhere: Callable[[str, dict[str, Any]], Arrays] | None = None
    say: Callable[[str], None] = lambda text: None

    def attribute(self, name: str) -> Any:
        """What the file defines under `name`. Raises BadEntry with the nearest name it does define."""
        if name not in self.namespace:
            own = [key for key, value in self.namespace.items() if callable(value) and not key.startswith("_")]
            close = nearest(name, own)
            hint = f"you have `{close[0]}`; rename it" if close else "the page gives its exact signature"
            raise BadEntry(f"`{name}` is not defined: {hint}")
        found = self.namespace[name]
        if not callable(found):
            raise BadEntry(f"`{name}` is not callable: it is {described(found)}")
        return found

    def once(self, what: str, case: Case, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once for all cases with the same numbers and shapes. `what` tells it from others."""
        key = (what, static(case))
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def call(self, name: str, *args: Any) -> Any:
        """What the entry `name` returns for `args`. Raises BadEntry if it is missing or cannot be called with them."""
        target = self.attribute(name)
        check_arguments(target, self.problem.entry(name).signature(), *args)
        return target(*args)

    def bind(self, name: str, case: Case) -> tuple[Callable[[Any, Arrays], Any], Any, Arrays]:
        """`call, parameters, arrays` such that `call(parameters, arrays)` runs the entry on the case.

        A module is built abstractly and its parameters are filled by name; a function has none.
        """
        entry = self.problem.entry(name)
        arrays = {key: case.values[key] for key in entry.arguments if isinstance(case.values[key], np.ndarray)}

        def arguments(given: Arrays) -> list[Any]:
            return [given.get(key, case.values[key]) for key in entry.arguments]

        target = self.attribute(name)
        if not entry.is_module:
            check_arguments(target, entry.signature(), *arguments({}))
            return lambda _, given: target(*arguments(given)), {}, arrays
        graphdef, parameters, rest = self.build(name, case)
        return lambda p, given: nnx.merge(graphdef, p, rest)(*arguments(given)), parameters, arrays

    def build(self, name: str, case: Case) -> tuple[Any, Any, Any]:
        """The module entry's graph, its filled parameters, and its other state.

        Abstract construction costs no initialisation. A constructor that needs real numbers, or state other than
        parameters, is run for real.
        """
        key = ("build", name, static(case))
        if key not in self.memo:
            make = self.maker(name, case)
            try:
                module = nnx.eval_shape(make)
                built = nnx.split(module, nnx.Param, ...)
                abstract = not jax.tree.leaves(built[-1]) and not _holds_tracers(module)
            except Exception:  # whatever it is, the real construction will raise it with the learner's own frames
                abstract = False
            self.memo[key] = built if abstract else nnx.split(make(), nnx.Param, ...)
        graphdef, parameters, rest = self.memo[key]
        return graphdef, fill_state(parameters, case.seed), rest

    def maker(self, name: str, case: Case) -> Callable[[], nnx.Module]:
        """A function that constructs the module entry as the page says. Raises BadEntry if it is no nnx.Module."""
        entry = self.problem.entry(name)
        cls = self.attribute(name)
        if not (isinstance(cls, type) and issubclass(cls, nnx.Module)):
            why = "does not" if isinstance(cls, type) else f"is {described(cls)}"
            raise BadEntry(f"`{name}` must be a class that inherits from nnx.Module: yours {why}")
        if entry.made_by:
            return self._captured(entry.made_by, cls, case)
        hyper = [case.values[key] for key in entry.construct or ()]
        check_arguments(cls, entry.signature(), *hyper, rngs=None)
        build: Callable[..., nnx.Module] = cls
        return lambda: build(*hyper, rngs=nnx.Rngs(case.seed))

    def _captured(self, maker: Entry, cls: type[nnx.Module], case: Case) -> Callable[[], nnx.Module]:
        """A function that returns the first `cls` that the `maker` entry constructs."""
        target, args = self.attribute(maker.name), [case.values[key] for key in maker.arguments]
        check_arguments(target, maker.signature(), *args)

        def make() -> nnx.Module:
            def stop(module: nnx.Module) -> None:
                raise _MadeError(module)

            try:
                with constructing(cls, stop):
                    target(*(jnp.asarray(value) if isinstance(value, np.ndarray) else value for value in args))
            except _MadeError as made:
                return made.module
            raise BadEntry(f"`{maker.name}` does not construct a `{cls.__name__}`")

        return make


def check_arguments(target: Any, wanted: str, *args: Any, **kwargs: Any) -> None:
    """Raises BadEntry, with both signatures, if `target` does not accept these arguments."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = ", ".join(signature.parameters)
        raise BadEntry(f"it is called as `{wanted}`, but yours takes ({parameters}): {error}") from None


def static(case: Case) -> tuple[Any, ...]:
    """What of a case decides a trace: its numbers, and the shapes and types of its arrays."""
    return tuple(
        (key, value.shape, value.dtype.str) if isinstance(value, np.ndarray) else (key, value)
        for key, value in case.values.items()
    )


def run(program: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """Runs `program` compiled as a whole, or, where it cannot be traced, eagerly with a note that says so."""
    try:
        return (program if hasattr(program, "lower") else jax.jit(program))(*args), []
    except (BadOutput, BadEntry, NotImplementedError):
        raise
    except Exception as error:
        if not is_tracing_error(error):
            raise
        result = inspect.unwrap(program)(*jax.tree.map(jnp.asarray, args))
        return result, [f"ran eagerly: it cannot be traced by jax.jit ({type(error).__name__})"]


def is_tracing_error(error: BaseException) -> bool:
    """Whether code failed only because its arrays were traced."""
    return isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError | jax.errors.UnexpectedTracerError)


def values(
    subject: Subject, case: Case, *, entry: str, wrt: str | list[str] | None = None, fill: str | None = None
) -> Reading:
    """`output.*`, and `gradient.*` of a fixed random projection of it with respect to `wrt`."""
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
        if wrt is None or isinstance(error, BadOutput | BadEntry | NotImplementedError):
            raise
        # The output alone may still be right.
        out, notes = run(forward, parameters, arrays)
        cause = f"jax.grad of it raised {type(error).__name__}, so it could not be trained"
        size = sum(arrays[key].size for key in wrt) if isinstance(wrt, list) else MOST_DIFFERENCES + 1
        if not is_tracing_error(error) or size > MOST_DIFFERENCES:
            return Reading(out, [*notes, f"no gradient: {cause}"])
        slope = differences(lambda x: forward(parameters, {**arrays, **x}), {key: arrays[key] for key in wrt})
        return Reading(
            {**out, **slope}, [*notes, f"its gradient was taken by finite differences: {cause}"], numeric=True
        )
    if wrt is None:
        return Reading(result, notes)
    return Reading({**result[0], **named(result[1], "gradient")}, notes)


def differences(forward: Callable[[Arrays], Arrays], at: Arrays) -> Arrays:
    """The gradient of the projected output for code that JAX cannot differentiate: central differences of fourth order."""

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
    """The filled parameters of a module under their paths, and the initial values of those in `initial`."""
    _, state, _ = subject.build(entry, case)
    arrays = named(state, "")
    if initial:
        make = subject.maker(entry, case)

        def start() -> Arrays:
            start = named(nnx.state(make(), nnx.Param), "")
            return {f"initial.{path}": start[path] for path in initial if path in start}

        arrays |= run(start)[0]
    return Reading(arrays)


def dependence(subject: Subject, case: Case, *, entry: str, argument: str) -> Reading:
    """Which outputs depend on which inputs in time: 1 at (t, s) where moving input s moves output t in any bit."""
    call, parameters, arrays = subject.bind(entry, case)

    def forward(p: Any, x: Arrays) -> Any:
        return named(call(p, x), "output")

    program, x = jax.jit(forward), arrays[argument]
    base, notes = run(program, parameters, arrays)
    if any(np.shape(out)[:1] != x.shape[:1] for out in base.values()):
        raise BadOutput("the output's first axis is not time, as it is the input's")
    columns = []
    for s in range(len(x)):
        moved = x.copy()
        moved[s] = 0.5 - 1.5 * moved[s]
        out, _ = run(program, parameters, {**arrays, argument: moved})
        changed = [np.asarray(out[path]) != np.asarray(base[path]) for path in base]
        columns.append(np.any([change.reshape(len(change), -1).any(-1) for change in changed], axis=0))
    return Reading({"depends": np.stack(columns, axis=1).astype(np.int32)}, notes)


def compiled(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The output under jit on two inputs of the same shapes, and how often the second call traced again."""
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
        raise BadOutput(
            f"cannot be traced by jax.jit ({type(error).__name__}): it looks at the value of an array"
        ) from None
    return Reading(
        {**{f"first.{path}": x for path, x in first.items()}, **{f"second.{path}": x for path, x in second.items()}}
        | {"compilations": np.int32(traces)}
    )


def parts(subject: Subject, case: Case, *, entry: str) -> Reading:
    """What goes into and comes out of each named part (`values.*`), and the gradients there (`slopes.*`). Runs eagerly.

    The gradients are of the same random projection of the output as in `values`. They are taken with respect to zeros that
    are added on the way in and on the way out.
    """
    graphdef, parameters, rest = subject.build(entry, case)
    given = [case.values[key] for key in subject.problem.entry(entry).arguments]
    arguments = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in given]
    seen: Arrays = {}

    def record(name: str, value: Any) -> Any:
        if not isinstance(value, jax.core.Tracer):  # inside a loop or a jit of its own there is no one value
            seen[f"values.{name}"] = value
        return value

    def run_with(watch: Callable[[str, Any], Any]) -> Any:
        module = nnx.merge(graphdef, parameters, rest)
        with parts_.watching(module, watch):
            return module(*arguments)

    out = run_with(record)
    if not _is_float(out):
        return Reading(seen)
    places = {name: jnp.zeros_like(value) for name, value in seen.items() if _is_float(value)}

    def projected(added: Arrays) -> Any:
        def shifted(name: str, value: Any) -> Any:
            return value + added[f"values.{name}"] if f"values.{name}" in added else value

        return jnp.sum(cotangent("output", out) * run_with(shifted))

    try:
        slopes = jax.grad(projected)(places)
    except Exception:  # what cannot be differentiated still has values
        slopes = {}
    return Reading(seen | {name.replace("values.", "slopes.", 1): slope for name, slope in slopes.items()})


@contextlib.contextmanager
def constructing(
    cls: type[nnx.Module], then: Callable[[nnx.Module], object], seen: Arrays | None = None
) -> Iterator[None]:
    """While it lasts, `then` is called with each outermost `cls` that has been constructed.

    The key of the rngs it was constructed with is put into `seen`.
    """
    original, depth = cls.__init__, 0

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal depth
        for value in (*args, *kwargs.values()):
            if seen is not None and isinstance(value, nnx.Rngs):
                seen["output.rngs_key"] = jax.random.key_data(value.params.key[...])
        depth += 1
        try:
            original(self, *args, **kwargs)
        finally:
            depth -= 1
        if not depth:
            then(self)

    cls.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        cls.__init__ = original  # type: ignore[method-assign]


def filling(subject: Subject, name: str | None, seed: int, seen: Arrays) -> contextlib.AbstractContextManager[None]:
    """While it lasts, every `name` that is constructed has its parameters filled by name.

    What the entry returns then no longer depends on the order in which its author draws from `rngs`; the key it drew from is
    compared instead, so that the seed still counts.
    """
    seen.clear()
    if name is None:
        return contextlib.nullcontext()
    return constructing(subject.attribute(name), lambda module: fill_module(module, seed), seen)


def cotangent(path: str, like: Any) -> np.ndarray[Any, Any]:
    """A fixed random cotangent for the output leaf of that name."""
    shape = np.shape(like)
    seed = int.from_bytes(hashlib.sha256(f"cotangent:{path}".encode()).digest()[:8], "big")
    drawn: np.ndarray[Any, Any] = np.random.default_rng(seed).standard_normal(shape).astype(jnp.result_type(like))
    return drawn


def _holds_tracers(module: nnx.Module) -> bool:
    """Whether a plain array, one that is no variable, was left in the module by its abstract construction."""
    nodes = [node for _, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)]
    return any(isinstance(value, jax.core.Tracer) for node in nodes for value in vars(node).values())


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


GENERIC: Mapping[str, Callable[..., Reading]] = {
    "values": values,
    "parameters": parameters,
    "dependence": dependence,
    "compiled": compiled,
    "parts": parts,
}
