"""Problem 67's probe of a text in two parts."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, alone, extended, given
from grader.problem import Case


def parts(subject: Subject, case: Case) -> Reading:
    """The outputs of a text that comes in two parts, then one more position.

    Each call is traced alone, before there is a text: a frame above it would hold all of the text.
    """
    graphdef, parameters, rest = subject.build("SelectiveSSM", case)
    x, first = given(case, "x"), int(case.values["first"])

    def start(parameters: Any) -> Any:
        return jax.tree.map(jnp.asarray, nnx.merge(graphdef, parameters, rest).empty_cache(len(x)))

    def call(name: str, parameters: Any, cache: Any, rows: Any) -> Any:
        out, cache = extended(nnx.merge(graphdef, parameters, rest), "SelectiveSSM", name, cache, rows)
        if jnp.shape(out) != rows.shape:
            raise BadOutputError(f"`{name}` returned {jnp.shape(out)} for x {rows.shape}; the shapes must be equal")
        return jnp.asarray(out), cache

    calls = [partial(call, name) for name in ("extend", "extend", "decode_step")]
    if subject.eager:

        def one_by_one(parameters: Any, x_TD: Any) -> Arrays:
            cache, outs = start(parameters), []
            for each, rows in zip(calls, (x_TD[:first], x_TD[first:-1], x_TD[-1]), strict=True):
                out, cache = each(parameters, cache, rows)
                outs.append(jnp.atleast_2d(out))
            return {"output": jnp.concatenate(outs)}

        return subject.run(one_by_one, case, parameters, x)
    begin, cache = alone(start, parameters)
    programs = []
    for each, shape in zip(calls, ((first, x.shape[1]), (len(x) - 1 - first, x.shape[1]), x.shape[1:]), strict=True):
        run, (_, cache) = alone(each, parameters, cache, jax.ShapeDtypeStruct(shape, x.dtype))
        programs.append(run)

    def program(parameters: Any, x_TD: Any) -> Arrays:
        flat = jax.tree.leaves(parameters)
        cache, outs = begin(*flat), []
        for run, rows in zip(programs, (x_TD[:first], x_TD[first:-1], x_TD[-1]), strict=True):
            out, *cache = run(*flat, *cache, rows)
            outs.append(jnp.atleast_2d(out))
        return {"output": jnp.concatenate(outs)}

    return subject.run(program, case, parameters, x)


PROBES = {"parts": parts}
