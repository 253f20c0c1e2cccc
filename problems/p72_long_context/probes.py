"""Probes of problem 72: frequencies, rotated vectors in bfloat16, and a trained model beyond its context. Run in
workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager, given, named
from grader.problem import UNCHECKED, Case
from problems.p72_long_context.problem import BASE, CONTEXT, ENOUGH, K
from problems.p72_long_context.two_heads import weights_on_answers


@eager
def extending(subject: Subject, case: Case) -> Reading:
    """The frequencies and the scale. All inputs are Python numbers, so there is nothing to trace."""
    names = subject.problem.entry("yarn").passed(case)
    frequencies, scale = subject.call("yarn", *(case.values[name] for name in names))
    if np.shape(scale) or not isinstance(scale, int | float | np.number | jax.Array):
        raise BadOutputError(f"`yarn` returned {described(scale)} as the scale; it must be a number")
    if not isinstance(frequencies, np.ndarray | jax.Array) or frequencies.dtype.kind != "f":
        raise BadOutputError(f"`yarn` returned {described(frequencies)} as the frequencies; it must be a float32 array")
    return Reading({"frequencies": np.asarray(frequencies, np.float32), "scale": np.float32(scale)})


def half_precision(subject: Subject, case: Case) -> Reading:
    """The result for x in bfloat16."""
    scale = case.values["scale"]

    def program(x: Any, positions: Any, frequencies: Any) -> Arrays:
        return named(subject.call("rotate", x.astype(jnp.bfloat16), positions, frequencies, scale), "output")

    return subject.run(program, case, *(given(case, name) for name in ("x", "positions", "frequencies")))


def finding(subject: Subject, case: Case) -> Reading:
    """The number of keys that the model misses, and the weights on their answers."""
    factor = case.values["factor"]

    def program(previous: Any, matching: Any, places: Any) -> Arrays:
        frequencies, scale = subject.call("yarn", K, BASE, factor, CONTEXT)
        frequencies = jnp.asarray(frequencies, jnp.float32)

        def rotated(x: Any, positions: Any) -> Any:
            out = subject.call("rotate", x, positions, frequencies, scale)
            if jnp.shape(out) != x.shape:
                raise BadOutputError(f"`rotate` returned {jnp.shape(out)} for x {x.shape}; the shapes must be equal")
            return out

        weights = weights_on_answers(rotated, previous, matching, places, round(CONTEXT * factor))
        return {"missed": jnp.sum(~(weights > ENOUGH)), UNCHECKED + "weights": weights}

    return subject.run(program, case, *(given(case, name) for name in ("previous", "matching", "places")))


PROBES = {"extending": extending, "half_precision": half_precision, "finding": finding}
