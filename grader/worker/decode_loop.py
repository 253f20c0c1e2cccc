"""Builds the decoding loop from parts that are traced separately, so that no step of the learner's code has the whole
text in scope.

Code can read the frames of its callers, so a step that was traced inside the loop could read the text of all steps. So
the function that makes the first cache and the step are each traced to a program before this process makes anything of
the text, and the loop calls these programs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Subject
from grader.worker.tracing import Given, alone

_scan = jax.lax.scan  # bound before a submission is imported, which could exchange it


def stepwise(
    subject: Subject, start: Callable[[Any], Any], step: Callable[[Any, Any, Any], Any], parameters: Any, rows: Given
) -> Callable[[Any, Any], Any]:
    """Returns the loop: a function of `parameters` and `rows` that returns, for each row, the array of its step.

    `start(parameters)` returns the first cache, `step(parameters, cache, row)` the pair of an array and the next cache.
    The loop carries the cache from step to step. Raises BadOutputError if a step returns a cache of another form.
    """

    def first(parameters: Any) -> Any:
        return jax.tree.map(jnp.asarray, start(parameters))

    def once(parameters: Any, cache: Any, row: Any) -> Any:
        out, cache = step(parameters, cache, row)
        return jnp.asarray(out), cache

    if subject.eager:
        return partial(_one_by_one, first, once)
    row = jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype)  # type: ignore[no-untyped-call]
    begin, cache = alone(first, parameters)
    follow, (_, after) = alone(once, parameters, cache, row)
    _check_carried(after, cache)

    def loop(parameters: Any, rows: Any) -> Any:
        given = jax.tree.leaves(parameters)

        def turn(cache: Any, row: Any) -> Any:
            out, *cache = follow(*given, *cache, row)
            return cache, out

        return _scan(turn, begin(*given), rows)[1]

    return loop


def _one_by_one(first: Callable[..., Any], once: Callable[..., Any], parameters: Any, rows: Any) -> Any:
    """Runs the steps one by one without a trace, for code that cannot be traced. Returns the stacked arrays."""
    cache, outs = first(parameters), []
    for row in rows:
        out, cache = once(parameters, cache, row)
        outs.append(out)
    return jnp.stack(outs)


def _check_carried(new: Any, old: Any) -> None:
    """Raises BadOutputError if a step returns a cache of another form, because it would be compiled again for every
    position."""
    if jax.tree.structure(new) != jax.tree.structure(old):  # type: ignore[operator]
        raise BadOutputError("`decode_step` returned a cache of another structure than it was given")
    before = dict(jax.tree_util.tree_flatten_with_path(old)[0])
    for path, leaf in jax.tree_util.tree_flatten_with_path(new)[0]:
        was = before[path]
        if (leaf.shape, leaf.dtype) != (was.shape, was.dtype):
            name = jax.tree_util.keystr(path)
            raise BadOutputError(
                f"`decode_step` changed the cache{name} from {was.dtype}{list(was.shape)} to "
                f"{leaf.dtype}{list(leaf.shape)}, so it would be compiled again for every position; write into a cache "
                "of fixed size"
            )
