"""A loaded file, as probes see it: what it defines, called as the page says, its modules built and filled by name.

Imports JAX; runs in workers only.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from commandline.spelling import nearest
from grader.problem import Case, Entry, Problem
from grader.worker.pytrees import BadOutputError, described, fill_state

Arrays = dict[str, Any]


class BadEntryError(Exception):
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

    `memo` keeps whatever depends only on a case's numbers and shapes, so that cases with the same shapes share one trace and one
    compilation. `elsewhere(probe, options)` runs a probe on the same file and case in another process and returns its arrays;
    it is there if the problem's `probes.py` says `SECOND_PROCESS = True`. `say(text)` reports the progress of a long probe.
    """

    problem: Problem
    namespace: dict[str, Any]
    memo: dict[Any, Any] = field(default_factory=dict)
    elsewhere: Callable[[str, dict[str, Any]], Arrays] | None = None
    say: Callable[[str], None] = lambda text: None

    def attribute(self, name: str) -> Any:
        """What the file defines under `name`. Raises BadEntryError with the nearest name it does define."""
        if name not in self.namespace:
            own = [key for key, value in self.namespace.items() if callable(value) and not key.startswith("_")]
            close = nearest(name, own)
            if all(key.startswith("__") for key in self.namespace):
                raise BadEntryError("the file is empty: was it saved?")
            hint = f"you have `{close[0]}`; rename it" if close else "write it at the top level, as the page says"
            raise BadEntryError(f"`{name}` is not defined: {hint}")
        found = self.namespace[name]
        if not callable(found):
            raise BadEntryError(f"`{name}` is not callable: it is {described(found)}")
        return found

    def once(self, what: str, case: Case, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once for all cases with the same numbers and shapes. `what` tells it from others."""
        key = (what, static(case))
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def call(self, name: str, *args: Any, returns: tuple[Any, str] | None = None) -> Any:
        """Calls the entry `name` with `args`. `returns` is the type that its result must have, and its description.

        Raises BadEntryError if the entry is missing or does not accept the arguments, BadOutputError if the type is wrong.
        """
        target = self.attribute(name)
        check_arguments(target, self.problem.entry(name).signature(), *args)
        found = target(*args)
        if returns and not isinstance(found, returns[0]):
            raise BadOutputError(f"`{name}` returned {described(found)}; it must return {returns[1]}")
        return found

    def save(self, path: str, *args: Any) -> None:
        """Calls the entry `save`. Raises BadOutputError if nothing is at `path` when it has returned."""
        self.call("save", path, *args)
        if not Path(path).exists():
            raise BadOutputError("after `save`, there is nothing at its path: was the writing waited for?")

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
        """A function that constructs the module entry as the page says. Raises BadEntryError if it is no nnx.Module."""
        entry = self.problem.entry(name)
        cls = self.attribute(name)
        if not (isinstance(cls, type) and issubclass(cls, nnx.Module)):
            why = "does not" if isinstance(cls, type) else f"is {described(cls)}"
            raise BadEntryError(f"`{name}` must be a class that inherits from nnx.Module: yours {why}")
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
            raise BadEntryError(f"`{maker.name}` does not construct a `{cls.__name__}`")

        return make


def check_arguments(target: Any, wanted: str, *args: Any, **kwargs: Any) -> None:
    """Raises BadEntryError, with both signatures, if `target` does not accept these arguments."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        parameters = ", ".join(signature.parameters)
        raise BadEntryError(f"it is called as `{wanted}`, but yours takes ({parameters}): {error}") from None


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
    except (BadOutputError, BadEntryError, NotImplementedError):
        raise
    except Exception as error:
        if not is_tracing_error(error):
            raise
        result = inspect.unwrap(program)(*jax.tree.map(jnp.asarray, args))
        return result, [f"ran eagerly: it cannot be traced by jax.jit ({type(error).__name__})"]


def is_tracing_error(error: BaseException) -> bool:
    """Whether code failed only because its arrays were traced."""
    return isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError | jax.errors.UnexpectedTracerError)


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


def _holds_tracers(module: nnx.Module) -> bool:
    """Whether a plain array, one that is no variable, was left in the module by its abstract construction."""
    nodes = [node for _, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)]
    return any(isinstance(value, jax.core.Tracer) for node in nodes for value in vars(node).values())
