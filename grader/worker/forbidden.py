"""What a problem asks to write, and so forbids to call: found when the code runs, whatever the name that it is called by.

The code of each forbidden function is exchanged in place, so that aliases, `getattr` and earlier imports reach the same guard.
The guard raises if a learner's file is among the callers. Probes and other problems call the function as before. Like all that
happens in a submission's own process, this stops no forger; it tells honest learners which rule their code breaks, and where.
"""

import contextlib
import importlib
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

_originals: dict[str, FunctionType] = {}
_rules: list[tuple[Collection[str], Collection[str]]] = []  # names of functions, and the files that must not call them


class ForbiddenCallError(Exception):
    """A learner's code called a function that the problem asks to write. The message names it."""


def guard(names: Iterable[str]) -> None:
    """Guards functions, and the constructors and calls of classes, by their dotted names. Raises AttributeError."""
    for name in names:
        module, _, attribute = name.rpartition(".")
        target = getattr(importlib.import_module(module), attribute)
        if isinstance(target, type):
            methods = [vars(target)[method] for method in ("__init__", "__call__") if method in vars(target)]
        else:
            methods = [inspect.unwrap(target)]
        for method in methods:
            key = f"{name}:{method.__name__}"
            if key not in _originals:
                _guard(method, name, key)


@contextlib.contextmanager
def enforced(names: Collection[str], files: Mapping[str, str]) -> Iterator[None]:
    """Inside the context, calls of these functions from code of these files raise ForbiddenCallError."""
    _rules.append((names, set(files.values())))
    try:
        yield
    finally:
        _rules.pop()


def _guard(function: FunctionType, name: str, key: str) -> None:
    code = function.__code__
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    _originals[key] = original
    constants = tuple({"NAME": name, "KEY": key}.get(value, value) for value in _stub.__code__.co_consts)
    # With the free variables of the original, because a function keeps its closure.
    function.__code__ = _stub.__code__.replace(co_consts=constants, co_freevars=code.co_freevars, co_name=code.co_name)


def _stub(*args: Any, **kwargs: Any) -> Any:
    # It runs with the globals of the guarded function's module.
    return __import__("sys").modules["grader.worker.forbidden"].called("NAME", "KEY", args, kwargs)


def called(name: str, key: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a guarded function. Raises ForbiddenCallError if a rule forbids it to one of the callers."""
    for names, files in _rules:
        frame = sys._getframe(2) if name in names else None
        while frame:
            if frame.f_code.co_filename in files:
                raise ForbiddenCallError(f"it uses `{name}`, which this problem asks you to write")
            frame = frame.f_back
    return _originals[key](*args, **kwargs)
