"""Probes of problem 46: the updates of a small tree, as one loop, and of a module inside nnx.Optimizer; and its measure
of the work of `orthogonalize`. Run in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.authoring import (
    Arrays,
    BadOutputError,
    Execution,
    Reading,
    Subject,
    given,
    named,
    rows_in_order,
    to_fill,
    work,
)
from grader.problem import Case
from problems.p46_muon.problem import LEAVES

KERNELS = ("ff1.kernel", "ff2.kernel", "proj.kernel")
REST = optax.adamw(0.05, b1=0.7, b2=0.9, weight_decay=0.2)


def tree(leaves: Arrays) -> Any:
    """The leaves as the parameters of a model."""
    block = {"ff1": {"kernel": leaves["ff1"], "bias": leaves["bias"]}} | {
        name: {"kernel": leaves[name]} for name in ("ff2", "proj", "conv")
    }
    return {
        "embed": {"embedding": leaves["embedding"]},
        "pos_embed": leaves["pos_embed"],
        "blocks": [block],
        "head": {"kernel": leaves["head"]},
    }


def updating(subject: Subject, case: Case) -> Reading:
    """The updates of a few steps. The steps are one loop, which carries the state and the parameters."""

    def program(start: Any, gradients: Any) -> Arrays:
        tx = _muon(subject, case, REST)

        def step(carry: Any, gradients: Any) -> Any:
            parameters, state = carry
            result = tx.update(gradients, state, parameters)
            if not (isinstance(result, tuple) and len(result) == 2):
                raise BadOutputError("`update` must return the pair (updates, new state)")
            structure: Any = jax.tree.structure(gradients)
            if structure != jax.tree.structure(result[0]):
                raise BadOutputError("`update` returned updates whose tree differs from that of the gradients")
            # JAX leaves out what is not used, so without its sums the state could hold less than in a training run.
            sums = jax.tree.map(lambda leaf: jnp.sum(jnp.abs(leaf)), result[1])
            return (optax.apply_updates(parameters, result[0]), result[1]), (result[0], sums)

        state = jax.tree.map(jnp.asarray, tx.init(start))
        if subject.eager:
            rows, carry = [], (start, state)
            for number in range(len(case.values["bias"])):
                carry, row = step(carry, jax.tree.map(lambda g, number=number: g[number], gradients))
                rows.append(row)
            updates, sums = jax.tree.map(lambda *parts: jnp.stack(parts), *rows)
        else:
            _check_state(tx, state, start, gradients)
            _, (updates, sums) = jax.lax.scan(step, (start, state), gradients)
        leaves = {".".join(name.split(".")[-2:]): leaf for name, leaf in named(updates, "").items()}
        kernels = {name: leaf for name, leaf in leaves.items() if name in KERNELS}
        return {
            **{f"first.{name}": leaf[0] for name, leaf in kernels.items()},
            **{f"kernels.{name}": leaf for name, leaf in kernels.items()},
            **{f"others.{name}": leaf for name, leaf in leaves.items() if name not in kernels},
            **named(sums, "unchecked"),
        }

    start = {name: to_fill(name, given(case, name).shape[1:], "float32") for name in LEAVES}
    return subject.run(program, case, tree(start), tree({name: given(case, name) for name in LEAVES}))


def optimizing(subject: Subject, case: Case) -> Reading:
    """The parameters of a module after two steps of nnx.Optimizer, with another `rest` than in `updating`."""

    def program(kernel: jax.Array, gradients: jax.Array) -> Arrays:
        model = nnx.Linear(*kernel.shape, rngs=nnx.Rngs(0))
        model.kernel[...] = kernel
        optimizer = nnx.Optimizer(model, _muon(subject, case, optax.sgd(0.3)), wrt=nnx.Param)
        for row in gradients[:2]:
            slope = nnx.grad(
                lambda model, row=row: jnp.sum(model.kernel[...] * row) + jnp.sum(model.bias[...] * row[0])
            )
            optimizer.update(model, slope(model))
        return named(nnx.state(model), "parameters")

    gradients = given(case, "ff1")
    return subject.run(program, case, to_fill("kernel", gradients.shape[1:], "float32"), gradients)


def _muon(subject: Subject, case: Case, rest: optax.GradientTransformation) -> optax.GradientTransformation:
    hyper = (case.values[name] for name in ("learning_rate", "beta", "weight_decay"))
    kind = optax.GradientTransformation, "an optax.GradientTransformation"
    tx: optax.GradientTransformation = subject.call("muon", *hyper, rest, returns=kind)
    return tx


def _check_state(tx: Any, state: Any, parameters: Any, gradients: Any) -> None:
    """Raises BadOutputError if an update returns a state of another form, because it would be compiled again for every
    step."""
    one = jax.tree.map(lambda g: g[0], gradients)
    after = jax.eval_shape(lambda: tx.update(one, state, parameters)[1])
    forms = [
        (jax.tree.structure(tree), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)])
        for tree in (state, after)
    ]
    if forms[0] != forms[1]:
        raise BadOutputError("`update` returned a state of another structure, shape or dtype than it was given")


def orthogonalizing(execution: Execution) -> dict[str, Any]:
    """The scalar operations of one run, and how often it decomposed a matrix or solved a system: the singular values
    would give the same result without a step."""
    called = (run.times for run, _ in execution.costs if rows_in_order(run.operation))
    return {"work": work(execution), "linear_algebra": np.int64(sum(called))}


PROBES = {"updating": updating, "optimizing": optimizing}
MEASURES = {"orthogonalizing": orthogonalizing}
