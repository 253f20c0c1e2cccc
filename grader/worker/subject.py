"""A loaded file as probes see it: its entries, called as the page says, and its modules, built and filled by name."""

import contextlib
import inspect
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from commandline.spelling import nearest
from grader.problem import Case, Entry, Problem
from grader.wire.program import Program
from grader.worker.pytrees import BadOutputError, described, fill_state
from grader.worker.tracing import Given, as_outside_jit, given, is_array, is_tracing_error, numbers, trace, untraceable

Arrays = dict[str, Any]
"""Arrays by path: what a probe's program returns."""
Say = Callable[[int, int, float], None]

# Flax's message about an attribute that holds arrays or modules in a plain container, where Flax does not find them.
PLAIN_CONTAINER = re.compile(
    r"Found data on value of type '<class '(list|tuple|dict)'>' assigned to static attribute '(\w+)'"
)


class BadEntryError(Exception):
    """The graded name is missing or cannot be called as the page says. The message gives the remedy."""


class ConstructedError(BaseException):
    """Leaves an entry as soon as it has constructed the graded module."""

    def __init__(self, module: nnx.Module) -> None:
        self.module = module


@dataclass(frozen=True)
class Reading:
    """The result of a probe.

    Attributes:
        arrays: The arrays to compare by path.
        notes: Sentences for the learner.
        numeric: Whether the gradient was computed by finite differences, which are less exact.
        program: The program that gives the arrays when a witness runs it.
        files: A folder whose files are sent along.
    """

    arrays: Arrays = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    numeric: bool = False
    program: Program | None = None
    files: Path | None = None


@dataclass
class Subject:
    """A loaded file as probes see it.

    Attributes:
        problem: The problem that the file is graded for.
        namespace: What the file defines by name.
        eager: Whether this process knows the numbers of the case and runs the code itself, because it cannot be traced.
            What it then measures of itself is worth nothing.
        memo: A cache of everything that depends only on a case's numbers and shapes.
        received: The folder of files that another process left for this probe.
        say: A function `say(step, steps, loss)` that reports the progress of a long run.
        ask: A function that sends a question to the check's partner and returns its answer; both are JSON. It raises
            BadOutputError if the partner refuses the question.
    """

    problem: Problem
    namespace: dict[str, Any]
    eager: bool = False
    memo: dict[Any, Any] = field(default_factory=dict)
    received: Path | None = None
    say: Say = lambda step, steps, loss: None
    ask: Callable[[Any], Any] = lambda question: None

    def attribute(self, name: str) -> Any:
        """Returns the function or class `name` of the file. Raises BadEntryError, which suggests a similar name."""
        former = next((entry.formerly for entry in self.problem.entries if entry.name == name), "")
        if name not in self.namespace and former in self.namespace:
            name = former
        if name not in self.namespace:
            others = {entry.name for entry in self.problem.entries}
            public = [
                key
                for key, value in self.namespace.items()
                if callable(value) and not key.startswith("_") and key not in others
            ]
            similar = nearest(name, public)
            if all(key.startswith("__") for key in self.namespace):
                raise BadEntryError("the file is empty: was it saved?")
            hint = f"you have `{similar[0]}`; rename it" if similar else "write it at the top level of the file"
            raise BadEntryError(f"`{name}` is not defined: {hint}")
        value = self.namespace[name]
        if not callable(value):
            raise BadEntryError(f"`{name}` is not callable: it is {described(value)}")
        return value

    def once(self, what: str, case: Case, make: Callable[[], Any]) -> Any:
        """Returns the result of `make`, computed once for all cases with the same numbers and shapes.

        `what` identifies it.
        """
        key = (what, static(case))
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def call(self, name: str, *args: Any, returns: tuple[Any, str] | None = None) -> Any:
        """Calls the entry `name` with `args`. `returns` is the type that its result must have, and its description.

        Raises BadEntryError if the entry is missing or does not accept the arguments, BadOutputError if the type is
        wrong.
        """
        target = self.attribute(name)
        check_arguments(target, self.problem.entry(name).signature(), *args)
        result = target(*args)
        if self.problem.entry(name).returns:
            return tuple(parts(result, self.problem.entry(name).returns, name).values())
        if returns and not isinstance(result, returns[0]):
            raise BadOutputError(f"`{name}` returned {described(result)}; it must return {returns[1]}")
        return result

    def save(self, path: str, *args: Any) -> None:
        """Calls the entry `save` with `path` and `args`.

        Raises BadOutputError if nothing is at `path` when it returns.
        """
        self.call("save", path, *args)
        if not Path(path).exists():
            raise BadOutputError(
                "there is nothing at its path after `save`; wait for the write to finish before you return"
            )

    def bind(self, name: str, case: Case) -> tuple[Callable[[Any, Arrays], Any], Any, Arrays]:
        """Returns `call, parameters, arrays`, such that `call(parameters, arrays)` runs the entry on the case.

        `call` returns the parts of a tuple by name. A module is built abstractly, and its parameters are to be filled
        by name. A function has no parameters. Parameters and arrays are trees of `Given`.
        """
        entry = self.problem.entry(name)
        passed = entry.passed(case)
        arrays: Arrays = {key: given(case, key) for key in passed if is_array(case.values[key])}

        def arguments(values: Arrays) -> list[Any]:
            return [values.get(key, case.values[key]) for key in passed]

        target = self.attribute(name)
        if not entry.is_module:
            check_arguments(target, entry.signature(), *arguments({}))
            return lambda _, values: parts(target(*arguments(values)), entry.returns, name), {}, arrays
        graphdef, parameters, rest = self.build(name, case)

        def call(p: Any, values: Arrays) -> Any:
            return parts(nnx.merge(graphdef, p, rest)(*arguments(values)), entry.returns, name)

        return call, parameters, arrays

    def build(self, name: str, case: Case) -> tuple[Any, Any, Any]:
        """Returns the graph of the module entry, its parameters as `Given`, and its other state.

        Abstract construction avoids the cost of initialization. A constructor that needs concrete values, or creates
        state other than parameters, runs eagerly.
        """
        key = ("build", name, static(case))
        if key not in self.memo:
            make = self.constructor(name, case)
            try:
                with as_outside_jit():
                    module = nnx.eval_shape(make)
                built = nnx.split(module, nnx.Param, ...)
                abstract = not jax.tree.leaves(built[-1]) and not _holds_tracers(module)
            except Exception as error:
                if PLAIN_CONTAINER.search(str(error)):
                    raise  # it needs no number; to draw all parameters takes longer than most programs
                abstract = False  # the eager construction raises it again, with the learner's own frames
            self.memo[key] = built if abstract else nnx.split(make(), nnx.Param, ...)
        graphdef, parameters, rest = self.memo[key]
        return graphdef, fill_state(parameters, to_fill), rest

    def run(self, program: Callable[..., Arrays], case: Case, *args: Any, notes: Sequence[str] = ()) -> Reading:
        """Returns the arrays that `program(*args)` returns by name. `args` are trees of `Given`.

        Raises UntraceableError if the program cannot be traced and this process does not know the case's numbers.
        """
        if not self.eager:
            return Reading(notes=list(notes), program=trace(program, *args))
        result, more = run_eagerly(program, *numbers(args, case))
        return Reading(result, [*notes, *more])

    def constructor(self, name: str, case: Case, rngs: nnx.Rngs | None = None) -> Callable[[], nnx.Module]:
        """Returns a function that constructs the module entry as the page says. Raises BadEntryError if it is not an
        nnx.Module."""
        entry = self.problem.entry(name)
        cls = self.attribute(name)
        if not (isinstance(cls, type) and issubclass(cls, nnx.Module)):
            fault = "does not" if isinstance(cls, type) else f"is {described(cls)}"
            raise BadEntryError(f"`{name}` must be a class that inherits from nnx.Module; yours {fault}")
        if entry.made_by:
            return self._captured(entry.made_by, cls, case)
        hyper = [case.values[key] for key in entry.construct or () if key in case.values]
        check_arguments(cls, entry.signature(), *hyper, rngs=None)
        build: Callable[..., nnx.Module] = cls
        return lambda: build(*hyper, rngs=rngs or nnx.Rngs(case.seed))

    def _captured(self, entry: Entry, cls: type[nnx.Module], case: Case) -> Callable[[], nnx.Module]:
        """Returns a function that returns the first `cls` that the function entry constructs."""
        target, args = self.attribute(entry.name), [case.values[key] for key in entry.arguments]
        check_arguments(target, entry.signature(), *args)

        def make() -> nnx.Module:
            def stop(module: nnx.Module) -> None:
                raise ConstructedError(module)

            try:
                with constructing(cls, stop):
                    # Its parameters depend on the shapes of the arrays only.
                    target(*(jnp.zeros(x.shape, x.dtype) if isinstance(x, np.ndarray | Given) else x for x in args))
            except ConstructedError as constructed:
                return constructed.module
            raise BadEntryError(f"`{entry.name}` does not construct a `{cls.__name__}`")

        return make


def parts(result: Any, names: Sequence[str], entry: str) -> Any:
    """Returns the parts of a tuple that `entry` returned by their names, in this order; the result itself if there are
    no names.

    Raises BadOutputError if it is not a tuple of that length.
    """
    if not names:
        return result
    if not isinstance(result, tuple | list) or len(result) != len(names):
        raise BadOutputError(f"`{entry}` returned {described(result)}; it must return the tuple ({', '.join(names)})")
    return OrderedDict(zip(names, result, strict=True))


def check_arguments(target: Any, call: str, *args: Any, **kwargs: Any) -> None:
    """Raises BadEntryError if `target` does not accept these arguments. The message shows `call`, as on the page."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = ", ".join(signature.parameters)
        raise BadEntryError(f"it must accept `{call}`, but yours takes ({parameters}): {error}") from None


def static(case: Case) -> tuple[Any, ...]:
    """Returns the parts of a case that determine a trace: its numbers, and the shapes and dtypes of its arrays."""
    return tuple(
        (key, value.shape, np.dtype(value.dtype).str) if is_array(value) else (key, value)
        for key, value in case.values.items()
    )


def run_eagerly(program: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """Runs `program` under jit in this process, or without it if it cannot be traced. Returns its result, and a
    note."""
    try:
        return jax.jit(program)(*args), []
    except Exception as error:
        if not is_tracing_error(error):
            raise
        result = program(*jax.tree.map(jnp.asarray, args))
        return result, [f"ran eagerly, because {untraceable(error)}"]


def to_fill(path: str, shape: tuple[int, ...], dtype: Any) -> Given:
    """Returns the parameter at `path`, which is filled where the program runs."""
    return Given("filled", path, shape, dtype)


def eager(probe: Callable[..., Reading]) -> Callable[..., Reading]:
    """Marks a probe of what cannot be traced: files, processes, data pipelines, samplers."""
    probe.eager = True  # type: ignore[attr-defined]
    return probe


@contextlib.contextmanager
def constructing(
    cls: type[nnx.Module], then: Callable[[nnx.Module], object], seen: Arrays | None = None
) -> Iterator[None]:
    """Calls `then` with each outermost `cls` that is constructed within the context.

    Stores the key of its rngs in `seen`.
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


def _holds_tracers(module: nnx.Module) -> bool:
    """Returns whether abstract construction left a plain array, one that is not a variable, in the module."""
    nodes = [node for _, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)]
    return any(isinstance(value, jax.core.Tracer) for node in nodes for value in vars(node).values())
