"""Steps with a cache as one loop, whose pieces are traced alone: where a learner's code runs, there is no text to look
at.

A frame above a function can be read from within it, and so could the text of all steps. So the first cache and the step
become programs of their own before anything has been made of the text, and the loop is composed of these programs.
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
    """The function of parameters and rows that returns, for each row, the array that a step returns.

    `start(parameters)` returns the first cache, `step(parameters, cache, row)` the pair of an array and the next cache.
    What a step leaves for the next is carried by the loop. Raises BadOutputError if it returns a cache of another form.
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
    """The same without a trace, for code that cannot be traced."""
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
