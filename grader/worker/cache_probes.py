"""The probes of modules that mix positions: under another mask than the causal one, and one position a step with a
cache."""

from typing import Any

import jax.numpy as jnp
from flax import nnx

from grader.problem import Case
from grader.worker.decode_loop import stepwise
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Arrays, BadEntryError, Reading, Subject, check_arguments
from grader.worker.tracing import given


def with_mask(subject: Subject, case: Case, *, entry: str) -> Reading:
    """Returns the output of a module that is called with a mask."""
    graphdef, parameters, rest = subject.build(entry, case)

    def program(parameters: Any, x: Any, mask: Any) -> Arrays:
        module = nnx.merge(graphdef, parameters, rest)
        check_arguments(module, f"{entry}(...)(x, mask)", x, mask)
        return named(module(x, mask), "output")

    return subject.run(program, case, parameters, given(case, "x"), given(case, "mask"))


def decoding(subject: Subject, case: Case, *, entry: str) -> Reading:
    """Returns the output of each step of a module with `empty_cache(context)` and `decode_step(cache, x)`.

    The steps are one loop, so whatever a step leaves for the next is carried by the loop; see `stepwise`.
    """
    graphdef, parameters, rest = subject.build(entry, case)

    def step(parameters: Any, cache: Any, x_D: Any) -> Any:
        result = extended(nnx.merge(graphdef, parameters, rest), entry, "decode_step", cache, x_D)
        if jnp.shape(result[0]) != x_D.shape:
            raise BadOutputError(
                f"`decode_step` returned {jnp.shape(result[0])} for x {x_D.shape}; the shapes must be equal"
            )
        return result

    def start(parameters: Any) -> Any:
        module = nnx.merge(graphdef, parameters, rest)
        return _called(module, entry, "empty_cache", "empty_cache(context)", len(x))

    x = given(case, "x")
    outputs = stepwise(subject, start, step, parameters, x)
    return subject.run(lambda parameters, x_TD: {"output": outputs(parameters, x_TD)}, case, parameters, x)


def extended(module: Any, entry: str, name: str, cache: Any, x: Any) -> tuple[Any, Any]:
    """Returns the output and the cache that the method `name(cache, x)` of a module returns.

    Raises BadEntryError if there is no such method, BadOutputError if it returns no pair.
    """
    result = _called(module, entry, name, f"{name}(cache, x)", cache, x)
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise BadOutputError(f"`{name}` returned {described(result)}; it must return the pair (out, cache)")
    return result[0], result[1]


def _called(module: Any, entry: str, name: str, written: str, *args: Any) -> Any:
    method = getattr(module, name, None)
    if method is None:
        raise BadEntryError(f"`{entry}` has no method `{name}`; write `{written}`, as the page says")
    check_arguments(method, written, *args)
    return method(*args)
