"""The probe of problem 33: a module's variables, its output, and a variable that changes in place. Runs in workers."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from flax.errors import TraceContextError

from grader.authoring import Arrays, BadOutputError, Reading, Subject, cotangent, described, given, named
from grader.problem import Case

NAME = "StoryScorer"
OTHERS = nnx.Not(nnx.Param)


def using(subject: Subject, case: Case) -> Reading:
    """The module's other variables, its output and gradient with a given mean, what `observe` does, and a second
    model."""
    make = subject.constructor(NAME, case)

    def scorer(parameters: Any, mean: jax.Array) -> Any:
        model = make()
        nnx.update(model, parameters)
        _set_mean(model, mean)
        return model

    def program(parameters: Any, mean: jax.Array, x: jax.Array, stories: jax.Array) -> Arrays:
        def projected(parameters: Any) -> tuple[Any, Arrays]:
            outputs = _scores(scorer(parameters, mean), x)
            return sum(jnp.sum(cotangent(path, leaf) * leaf) for path, leaf in outputs.items()), outputs

        slopes, outputs = jax.grad(projected, has_aux=True)(parameters)
        first: Any = make()
        second = make()
        start = named(nnx.state(first, OTHERS), "buffers")
        nnx.update(first, parameters)
        held = _set_mean(first, mean)
        for story in stories:
            returned = first.observe(story)
            if returned is not None:
                raise BadOutputError(f"`observe` returned {described(returned)}; it must return None")
            _variable(first, "after `observe`")
        observed_outputs = _scores(first, x)  # before the state is read: a call changes nothing
        return {
            **start,
            **{f"output.{path}": leaf for path, leaf in outputs.items()},
            **named(slopes, "gradient"),
            **named(nnx.state(first), "observed"),
            "observed.mean_held_before": held[...],
            **{f"observed.output.{path}": leaf for path, leaf in observed_outputs.items()},
            **{
                f"other.{path}": leaf
                for path, leaf in named(nnx.state(second), "").items()
                if path in ("mean", "scale")
            },
        }

    _graphdef, parameters, _rest = subject.build(NAME, case)
    return subject.run(program, case, parameters, *(given(case, name) for name in ("mean", "x", "stories")))


def calling(subject: Subject, case: Case) -> Reading:
    """The module's output with a given mean."""
    make = subject.constructor(NAME, case)

    def program(parameters: Any, mean: jax.Array, x: jax.Array) -> Arrays:
        model = make()
        nnx.update(model, parameters)
        _set_mean(model, mean)
        return {f"output.{path}": leaf for path, leaf in _scores(model, x).items()}

    _graphdef, parameters, _rest = subject.build(NAME, case)
    return subject.run(program, case, parameters, given(case, "mean"), given(case, "x"))


def _scores(model: Any, x: jax.Array) -> Arrays:
    """The arrays of what a call returns. Raises BadOutputError if that is no dictionary, or an empty one."""
    returned = model(x)
    if not isinstance(returned, Mapping) or isinstance(returned, nnx.Module):
        what = f"an nnx.{type(returned).__name__}" if isinstance(returned, nnx.Dict | nnx.List) else described(returned)
        raise BadOutputError(
            f"the call returned {what}; it must return a plain dictionary with the keys `topic` and `length`"
        )
    if not returned:
        raise BadOutputError("the call returned an empty dictionary; it must have the keys `topic` and `length`")
    return named(returned, "")


def _set_mean(model: Any, mean: jax.Array) -> nnx.Variable[Any]:
    """Sets the model's `mean`. Raises BadOutputError if it was not created with the model."""
    variable = _variable(model, "at first")
    try:
        variable[...] = mean
    except TraceContextError:
        raise BadOutputError("`mean` was not created in `__init__`, so all models share it") from None
    return variable


def _variable(model: Any, when: str) -> nnx.Variable[Any]:
    """The variable `mean`. Raises BadOutputError if it is none."""
    if not hasattr(model, "mean"):
        raise BadOutputError("the module has no attribute `mean`")
    if not isinstance(model.mean, nnx.Variable):
        raise BadOutputError(f"`mean` is {described(model.mean)} {when}; it must be an nnx.Variable")
    if not hasattr(model, "observe"):
        raise BadOutputError("the module has no method `observe`")
    variable: nnx.Variable[Any] = model.mean
    return variable


PROBES = {"using": using, "calling": calling}
