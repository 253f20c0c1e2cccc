"""Probes of problem 09: the updates of an optimizer, called directly, compiled, and inside nnx.Optimizer. Runs in
workers."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager, given, named, to_fill
from grader.problem import Case

HYPER = ("learning_rate", "b1", "b2", "epsilon", "weight_decay")
TREE = ("kernel", "bias", "temperature")


def updates(subject: Subject, case: Case) -> Reading:
    """The updates of five steps, called directly and compiled. Each of the two applies its own updates to the
    parameters."""

    def program(start: Any, gradients: Arrays) -> Arrays:
        arrays: Arrays = {}
        for way in ("update", "compiled"):
            tx = _transformation(subject, case)
            update: Any = jax.jit(tx.update) if way == "compiled" else tx.update
            parameters, state = start, tx.init(start)
            for i in range(len(gradients["bias"])):
                result = update(_nested({key: gradients[key][i] for key in TREE}), state, parameters)
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise BadOutputError("`update` must return the pair (updates, new state)")
                moves, state = result
                arrays |= named(moves, f"{way}.{i}")
                parameters = optax.apply_updates(parameters, moves)
        return arrays

    parameters = {key: to_fill(key, given(case, key).shape[1:], "float32") for key in TREE}
    return subject.run(program, case, _nested(parameters), {key: given(case, key) for key in TREE})


def long_run(subject: Subject, case: Case) -> Reading:
    """The parameters after many steps in one compiled loop. The first step stands before it: it may settle a weak
    type."""

    def program(start: Any, gradients: Arrays) -> Arrays:
        tx = _transformation(subject, case)

        def step(carry: Any, row: Arrays) -> tuple[Any, None]:
            parameters, state = carry
            moves, state = tx.update(_nested(row), state, parameters)
            return (optax.apply_updates(parameters, moves), state), None

        first, others = ({key: gradients[key][part] for key in TREE} for part in (0, slice(1, None)))
        carry, _ = step((start, tx.init(start)), first)
        (parameters, _), _ = jax.lax.scan(step, carry, others)
        return named(parameters, "after")

    parameters = {key: to_fill(key, given(case, key).shape[1:], "float32") for key in TREE}
    return subject.run(program, case, _nested(parameters), {key: given(case, key) for key in TREE})


def optimizing(subject: Subject, case: Case) -> Reading:
    """The parameters of a module after five steps of nnx.Optimizer. The program holds a step once for each
    compilation."""

    def program(kernel: jax.Array, gradients: jax.Array) -> Arrays:
        model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        model.kernel[...] = kernel
        optimizer = nnx.Optimizer(model, _transformation(subject, case), wrt=nnx.Param)

        @nnx.jit
        def step(model: nnx.Linear, optimizer: nnx.Optimizer[Any], x: jax.Array) -> None:
            optimizer.update(model, nnx.grad(lambda model: jnp.sum(model(jnp.ones(3)) * x))(model))

        for row in gradients[:, :2]:
            step(model, optimizer, row)
        # JAX leaves out what is not used, so without the optimizer the last step would be another program than the
        # others.
        return {**named(nnx.state(model), "parameters"), **named(nnx.state(optimizer), "unchecked")}

    return subject.run(program, case, to_fill("kernel", (3, 2), "float32"), given(case, "bias"))


@eager
def masks(subject: Subject, case: Case) -> Reading:
    """Which of the parameters, in a tree with lists in it, `decayed` gives True for."""
    parameters = {name: jnp.asarray(value) for name, value in case.values.items()}
    tables = {"embedding": parameters.pop("embedding")}
    mask = subject.call(
        "decayed", {"tables": tables, "blocks": [parameters]}, returns=(dict, "a tree like that of the parameters")
    )
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(mask):
        if not isinstance(leaf, bool):
            raise BadOutputError(f"`decayed` returned {described(leaf)} for `{path[-1].key}`; it must be a Python bool")
        found[f"decays.{path[-1].key}"] = np.int32(leaf)
    return Reading(found)


def _transformation(subject: Subject, case: Case) -> optax.GradientTransformation:
    kind = optax.GradientTransformation, "an optax.GradientTransformation"
    arguments: list[Any] = [case.values[name] for name in HYPER]
    if "without_decay" in case.values:
        without = str(case.values["without_decay"]).rpartition(".")[2]
        mask = _nested({name: name != without for name in TREE})
        arguments.append(lambda parameters: mask)
    tx: optax.GradientTransformation = subject.call("adamw", *arguments, returns=kind)
    return tx


def _nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The tree that the submission gets: a dictionary with a list of dictionaries in it, and a scalar."""
    return {"blocks": [{"kernel": leaves["kernel"], "bias": leaves["bias"]}], "temperature": leaves["temperature"]}


PROBES = {"updates": updates, "long_run": long_run, "masks": masks, "optimizing": optimizing}
