"""Probes of problem 24: initial deviations, updates by group, and the change of the logits at two widths. Runs in workers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import filled, named
from grader.worker.subject import Reading, Subject

WIDE = 256  # eight times the base of the cases


def starting(subject: Subject, case: Case) -> Reading:
    """The root mean square, here the standard deviation, of each matrix of a fresh wide model."""
    model = _model(subject, case, WIDE)
    return Reading(
        {
            f"standard_deviation.{path}": jnp.sqrt(jnp.mean(jnp.square(leaf)))
            for path, leaf in named(nnx.state(model, nnx.Param), "").items()
            if leaf.ndim == 2
        }
    )


def stepping(subject: Subject, case: Case) -> Reading:
    """Two updates of parameters of every group, including those of a block in a list."""
    D, trees = 3, []
    shapes = {"embed": {"embedding": (5, D)}, "blocks": [{"ff1": {"kernel": (D, D), "bias": (D,)}, "ln1": {"scale": (D,)}}],
              "hidden": {"kernel": (D, D), "bias": (D,)}, "head": {"kernel": (D, 5)}}  # fmt: skip
    is_shape = lambda node: isinstance(node, tuple)  # noqa: E731
    for turn in "abc":
        tree = jax.tree_util.tree_map_with_path(
            lambda path, shape, turn=turn: jnp.asarray(
                filled(turn + jax.tree_util.keystr(path), shape, np.float32, case.seed)
            ),
            shapes,
            is_leaf=is_shape,
        )
        trees.append(tree)
    parameters, *gradients = trees
    tx = _adam(subject, case, int(case.values["d_model"]))
    state, arrays = tx.init(parameters), {}
    for number, gradient in enumerate(gradients):
        updates, state = jax.jit(tx.update)(gradient, state, parameters)
        arrays |= named(updates, f"update.{number}")
    return Reading(arrays)


def transferring(subject: Subject, case: Case) -> Reading:
    """The change of the logits in three steps at the large width, divided by the change at the base width.

    Each change is a mean over four random starts.
    """
    base = int(case.values["base_d_model"])
    return Reading({"growth": jnp.float32(_change(subject, case, WIDE) / _change(subject, case, base))})


def _change(subject: Subject, case: Case, width: int) -> float:
    """The root mean square by which three steps change the logits, averaged over four random starts."""
    tx = _adam(subject, case, width)
    token_ids = jnp.asarray(case.values["token_ids"])

    @nnx.jit
    def step(model: Any, optimizer: Any) -> None:
        def loss(model: Any) -> Any:
            return optax.softmax_cross_entropy_with_integer_labels(model(token_ids), jnp.flip(token_ids)).mean()

        optimizer.update(model, nnx.grad(loss)(model))

    changes = []
    for start in range(4):
        model: Any = _model(subject, replace(case, seed=case.seed + start), width)
        optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)
        before = model(token_ids)
        for _ in range(3):
            step(model, optimizer)
        changes.append(float(jnp.sqrt(jnp.mean((model(token_ids) - before) ** 2))))
    return float(np.mean(changes))


def _model(subject: Subject, case: Case, width: int) -> nnx.Module:
    return subject.constructor("MupLM", replace(case, values={**case.values, "d_model": width}))()


def _adam(subject: Subject, case: Case, width: int) -> optax.GradientTransformation:
    kind = optax.GradientTransformation, "an optax.GradientTransformation"
    sizes = (case.values["learning_rate"], width, case.values["base_d_model"])
    tx: optax.GradientTransformation = subject.call("mup_adam", *sizes, returns=kind)
    return tx


PROBES = {"starting": starting, "stepping": stepping, "transferring": transferring}
