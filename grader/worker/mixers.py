"""The probes of modules that mix positions: under another mask than the causal one, and one position a step with a cache."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Arrays, BadEntryError, Reading, Subject, check_arguments
from grader.worker.tracing import given


def with_mask(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The output of a module that is called with a mask."""
    graphdef, parameters, rest = subject.build(entry, case)

    def program(parameters: Any, x: Any, mask: Any) -> Arrays:
        module = nnx.merge(graphdef, parameters, rest)
        check_arguments(module, f"{entry}(...)(x, mask)", x, mask)
        return named(module(x, mask), "output")

    return subject.run(program, case, parameters, given(case, "x"), given(case, "mask"))


def decoding(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The output of each step of a module with `empty_cache(context)` and `decode_step(cache, x)`.

    The steps are one loop, so whatever a step leaves for the next is carried by the loop.
    """
    graphdef, parameters, rest = subject.build(entry, case)

    def step(parameters: Any, cache: Any, x_D: Any) -> Any:
        result = extended(nnx.merge(graphdef, parameters, rest), entry, "decode_step", cache, x_D)
        if jnp.shape(result[0]) != x_D.shape:
            raise BadOutputError(
                f"`decode_step` returned {jnp.shape(result[0])} for x {x_D.shape}; the shapes must be equal"
            )
        return result

    def program(parameters: Any, x_TD: Any) -> Arrays:
        module = nnx.merge(graphdef, parameters, rest)
        cache = _called(module, entry, "empty_cache", "empty_cache(context)", len(x_TD))
        cache = jax.tree.map(jnp.asarray, cache)
        if subject.eager:
            rows = []
            for x_D in x_TD:
                out, cache = step(parameters, cache, x_D)
                rows.append(out)
            return {"output": jnp.stack(rows)}
        _check_carried(jax.eval_shape(step, parameters, cache, x_TD[0])[1], cache)
        return {"output": jax.lax.scan(lambda cache, x_D: step(parameters, cache, x_D)[::-1], cache, x_TD)[1]}

    return subject.run(program, case, parameters, given(case, "x"))


def extended(module: Any, entry: str, name: str, cache: Any, x: Any) -> tuple[Any, Any]:
    """The output and the cache that the method `name(cache, x)` of a module returns.

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


def _check_carried(new: Any, old: Any) -> None:
    """Raises BadOutputError if a step returns a cache of another form, because it would be compiled again for every position."""
    if jax.tree.structure(new) != jax.tree.structure(old):  # type: ignore[operator]
        raise BadOutputError("`decode_step` returned a cache of another structure than it was given")
    before = dict(jax.tree_util.tree_flatten_with_path(old)[0])
    for path, leaf in jax.tree_util.tree_flatten_with_path(new)[0]:
        was = before[path]
        if (leaf.shape, leaf.dtype) != (was.shape, was.dtype):
            name = jax.tree_util.keystr(path)
            raise BadOutputError(
                f"`decode_step` changed the cache{name} from {was.dtype}{list(was.shape)} to {leaf.dtype}{list(leaf.shape)}, so "
                "it would be compiled again for every position; write into a cache of fixed size"
            )
