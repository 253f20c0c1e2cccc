"""Probes of problem 24: initial deviations, updates by group, and the change of the logits at two widths. Runs in
workers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from grader.authoring import Arrays, Given, Reading, Subject, given, named, to_fill
from grader.problem import Case

WIDE = 256  # eight times the base of the cases


def starting(subject: Subject, case: Case) -> Reading:
    """The root mean square, here the standard deviation, of each matrix of a fresh wide model, over four random
    starts."""

    def variances(seed: jax.Array) -> Arrays:
        matrices = named(nnx.state(_model(subject, case, WIDE, seed), nnx.Param), "")
        return {path: jnp.mean(jnp.square(leaf)) for path, leaf in matrices.items() if leaf.ndim == 2}

    def program(seed: jax.Array) -> Arrays:
        every = _over_starts(subject, variances, seed)
        return {f"standard_deviation.{path}": jnp.sqrt(jnp.mean(values)) for path, values in every.items()}

    return subject.run(program, case, given(case, "seed"))


def stepping(subject: Subject, case: Case) -> Reading:
    """Two updates of parameters of every group, including those of a block in a list and of layers that are stacked."""
    D = 3
    shapes = {"embed": {"embedding": (5, D)},
        "blocks": [{"ff1": {"kernel": (D, D), "bias": (D,)}, "ln1": {"scale": (D,)}}],
              "stack": {"kernel": (2, D, D), "bias": (2, D)}, "hidden": {"kernel": (D, D), "bias": (D,)},
              "head": {"kernel": (D, 5)}}  # fmt: skip

    def tree(turn: str) -> Any:
        def leaf(path: Any, shape: tuple[int, ...]) -> Given:
            return to_fill(turn + jax.tree_util.keystr(path), shape, "float32")

        return jax.tree_util.tree_map_with_path(leaf, shapes, is_leaf=lambda node: isinstance(node, tuple))

    def program(parameters: Any, *gradients: Any) -> Arrays:
        tx = _adam(subject, case, int(case.values["d_model"]))
        arrays: Arrays = {}
        state = tx.init(parameters)
        for number, gradient in enumerate(gradients):
            updates, state = tx.update(gradient, state, parameters)
            arrays |= named(updates, f"update.{number}")
        return arrays

    return subject.run(program, case, tree("a"), tree("b"), tree("c"))


def transferring(subject: Subject, case: Case) -> Reading:
    """The change of the logits in three steps at the large width, divided by the change at the base width.

    Each change is a mean over four random starts.
    """
    base = int(case.values["base_d_model"])

    def program(seed: jax.Array, token_ids: jax.Array) -> Arrays:
        wide, narrow = (_change(subject, case, width, seed, token_ids) for width in (WIDE, base))
        return {"growth": wide / narrow}

    return subject.run(program, case, given(case, "seed"), given(case, "token_ids"))


def _change(subject: Subject, case: Case, width: int, seed: jax.Array, token_ids: jax.Array) -> jax.Array:
    """The root mean square by which three steps change the logits, averaged over four random starts."""

    def loss(model: Any) -> Any:
        return optax.softmax_cross_entropy_with_integer_labels(model(token_ids), jnp.flip(token_ids)).mean()

    def change(seed: jax.Array) -> jax.Array:
        model: Any = _model(subject, case, width, seed)
        optimizer = nnx.Optimizer(model, _adam(subject, case, width), wrt=nnx.Param)
        before = model(token_ids)
        for _ in range(3):
            optimizer.update(model, nnx.grad(loss)(model))
        return jnp.sqrt(jnp.mean((model(token_ids) - before) ** 2))

    return jnp.mean(_over_starts(subject, change, seed))


def _over_starts(subject: Subject, one: Callable[[jax.Array], Any], seed: jax.Array) -> Any:
    """What `one` returns for each of four random starts, stacked."""
    starts = seed[0] + jnp.arange(4, dtype=seed.dtype)
    if subject.eager:
        return jax.tree.map(lambda *values: jnp.stack(values), *(one(start) for start in starts))
    return jax.lax.map(one, starts)


def _model(subject: Subject, case: Case, width: int, seed: jax.Array) -> nnx.Module:
    wide = replace(case, values={**case.values, "d_model": width})
    return subject.constructor("MupLM", wide, nnx.Rngs(jax.random.key(seed)))()


def _adam(subject: Subject, case: Case, width: int) -> optax.GradientTransformation:
    kind = optax.GradientTransformation, "an optax.GradientTransformation"
    sizes = (case.values["learning_rate"], width, case.values["base_d_model"])
    tx: optax.GradientTransformation = subject.call("mup_adam", *sizes, returns=kind)
    return tx


PROBES = {"starting": starting, "stepping": stepping, "transferring": transferring}
