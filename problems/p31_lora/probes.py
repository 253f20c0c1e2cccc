"""Probes of problem 31: an adapted layer, its training inside a model, and its merged form. Run in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, given, named, to_fill
from grader.problem import Case


class Stack(nnx.Module):
    """An adapted layer, a tanh and a frozen scale."""

    def __init__(self, adapted: Any, d_out: int) -> None:
        self.adapted = adapted
        self.scale = nnx.Param(jnp.ones(d_out))

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.tanh(self.adapted(x)) * self.scale[...]


def adapting(subject: Subject, case: Case) -> Reading:
    """The layer's variables, its initial difference from the base, its output and the gradient of its input with a
    given adapter, and its merged form.
    """

    def program(filled: Arrays, x: jax.Array, seed: jax.Array) -> Arrays:
        base, layer = _layer(subject, case, filled, seed)
        start = layer(x) - base(x)
        _fill(layer, filled)
        before = jax.tree.leaves(nnx.state(layer))
        variables = {f"variables.{path}": jnp.zeros(leaf.shape) for path, leaf in named(nnx.state(layer), "").items()}
        merged = subject.call("merge", layer)
        if type(merged) is not nnx.Linear:  # a subclass could still hold the adapter
            raise BadOutputError(f"`merge` returned {described(merged)}; it must return a plain nnx.Linear")
        return {
            **variables,
            "variables.adapters": np.int32(len(jax.tree.leaves(nnx.state(layer, nnx.LoRAParam)))),
            "change_at_start": start,
            "output": layer(x),
            "output.of_one_row": layer(x[0]),
            "output.with_three_axes": layer(x[None]),
            "gradient.x": jax.grad(lambda x: jnp.sum(layer(x) ** 2))(x),
            **named(nnx.state(merged), "merged"),
            "merged.output": merged(x),
            "changed_by_merging": _differ(before, jax.tree.leaves(nnx.state(layer))),
        }

    return subject.run(program, case, _to_fill(case), given(case, "x"), given(case, "seed"))


def starting(subject: Subject, case: Case) -> Reading:
    """The root mean square of each matrix of a fresh adapter, how much of a is far from 0, and whether other `rngs`
    give it, too.

    Of normal numbers 4.6% are beyond two standard deviations, of uniform ones none.
    """

    def program(filled: Arrays, seed: jax.Array) -> Arrays:
        _, layer = _layer(subject, case, filled, seed)
        _, other = _layer(subject, case, filled, seed + 1)
        spreads = {f"spread.{name}": jnp.sqrt(jnp.mean(jnp.square(getattr(layer, name)[...]))) for name in "ab"}
        spreads["spread.far in a"] = jnp.mean(abs(layer.a[...]) > 2 * spreads["spread.a"])
        return {**spreads, "same_a_with_other_rngs": 1 - _differ([layer.a[...]], [other.a[...]])}

    return subject.run(program, case, _to_fill(case), given(case, "seed"))


def training(subject: Subject, case: Case) -> Reading:
    """The adapter after three steps, also that of a layer alone, whether anything else changed, and the size of the
    optimizer's state.
    """

    def program(filled: Arrays, x: jax.Array, seed: jax.Array) -> Arrays:
        layer, alone = (_layer(subject, case, filled, seed)[1] for _ in range(2))
        _fill(layer, filled)
        _fill(alone, filled)
        model = Stack(layer, int(case.values["d_out"]))
        kind = nnx.Optimizer, "an nnx.Optimizer"
        optimizer, other = (
            subject.call("lora_optimizer", trained, case.values["learning_rate"], returns=kind)
            for trained in (model, alone)
        )
        others = nnx.Not(nnx.LoRAParam)
        before = named(nnx.state(model, others), "")

        @nnx.jit
        def step(model: Stack, optimizer: nnx.Optimizer[Any]) -> None:
            optimizer.update(model, nnx.grad(lambda model: jnp.mean((model(x) - 0.5) ** 2))(model))

        for _ in range(3):
            step(model, optimizer)
            step(alone, other)
        after = named(nnx.state(model, others), "")
        state = jax.tree.leaves(nnx.state(optimizer))
        return {
            **{f"base_moved.{path}": _differ([leaf], [after[path]]) for path, leaf in before.items()},
            **named(nnx.state(model, nnx.LoRAParam), "adapter"),
            **named(nnx.state(alone, nnx.LoRAParam), "adapter.alone"),
            "numbers_of_state": np.int32(sum(leaf.size for leaf in state)),
        }

    return subject.run(program, case, _to_fill(case), given(case, "x"), given(case, "seed"))


def _to_fill(case: Case) -> Arrays:
    """The base layer and the adapter, to be filled."""
    values: Any = case.values
    d_in = given(case, "x").shape[1] if "x" in values else values["d_in"]
    shapes = {"kernel": (d_in, values["d_out"]), "bias": (values["d_out"],), "a": (d_in, values["rank"]),
              "b": (values["rank"], values["d_out"])}  # fmt: skip
    return {name: to_fill(name, shape, "float32") for name, shape in shapes.items()}


def _layer(subject: Subject, case: Case, filled: Arrays, seed: jax.Array) -> tuple[nnx.Linear, Any]:
    values = case.values
    base = nnx.Linear(*filled["kernel"].shape, rngs=nnx.Rngs(0))
    base.kernel[...], base.bias[...] = filled["kernel"], filled["bias"]  # type: ignore[index]
    layer = subject.call("LoRALinear", base, values["rank"], values["alpha"], nnx.Rngs(jax.random.key(seed[0])))
    missing = [name for name in ("base", "a", "b") if not hasattr(layer, name)]
    if missing:
        raise BadOutputError(f"a `LoRALinear` must have `base`, `a` and `b`; yours has no `{missing[0]}`")
    return base, layer


def _fill(layer: Any, filled: Arrays) -> None:
    for name in "ab":
        shape = getattr(layer, name).shape
        if shape != filled[name].shape:
            raise BadOutputError(f"`{name}` has shape {shape}; it must have {filled[name].shape}")
        getattr(layer, name)[...] = filled[name]


def _differ(before: list[Any], after: list[Any]) -> jax.Array:
    """1 if any bit differs."""
    return jnp.asarray(sum(jnp.any(a != b) for a, b in zip(before, after, strict=True)) > 0, jnp.int32)


PROBES = {"adapting": adapting, "starting": starting, "training": training}
