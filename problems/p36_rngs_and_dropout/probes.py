"""Probes of problem 36: the masks of dropout, a model in both modes, and layers with keys of their own. Run in
workers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, cotangent, described, given, named, to_fill
from grader.problem import Case

NAME = "Dropout"


class Drop(nnx.Dropout):
    """Dropout that draws from a stream of its own."""

    def __init__(self, seed: int, *, deterministic: bool = False) -> None:
        self.deterministic, self.rngs = deterministic, nnx.Rngs(seed).fork()

    def __call__(self, inputs: jax.Array, **_: Any) -> jax.Array:
        if self.deterministic:
            return inputs
        return jnp.where(jax.random.bernoulli(self.rngs(), 0.5, inputs.shape), 2 * inputs, 0)


class Block(nnx.Module):
    """A part that holds a dropout."""

    def __init__(self, seed: int) -> None:
        self.drop = Drop(seed)


class Model(nnx.Module):
    """A linear layer, followed by two dropouts that drop while training, one of them in a list of parts, and by one
    that never does."""

    def __init__(self, d_model: int, kernel: jax.Array) -> None:
        self.linear = nnx.Linear(d_model, d_model, rngs=nnx.Rngs(0))
        self.linear.kernel[...] = kernel
        self.drop = Drop(1)
        self.never = Drop(2, deterministic=True)
        self.blocks = nnx.List([Block(3)])

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.linear(x)
        return jnp.concatenate([self.drop(h), self.never(h), self.blocks[0].drop(h)], axis=-1)


def dropping(subject: Subject, case: Case) -> Reading:
    """What a dropout does to numbers in both modes, its gradient, and which masks are equal."""
    rate: Any = case.values["rate"]

    def program(x: jax.Array, seeds: jax.Array) -> Arrays:
        def rngs(params: int = 0, dropout: int = 0) -> nnx.Rngs:
            return nnx.Rngs(params=jax.random.key(seeds[0] + params), dropout=jax.random.key(seeds[1] + dropout))

        def new(rngs: nnx.Rngs) -> Any:
            return subject.constructor(NAME, case, rngs)()

        def drop(layer: Any) -> jax.Array:
            return _checked(layer(x), x)

        def mask_of(layer: Any, x: jax.Array) -> jax.Array:
            return _checked(layer(x), x) != 0

        def mask(layer: Any) -> jax.Array:
            return mask_of(layer, x)

        layer = new(rngs())
        out = drop(layer)
        kept = out != 0
        compiled = nnx.jit(lambda layer, x: layer(x))
        jitted = new(rngs())
        weight = cotangent("x", x)
        differentiate = nnx.value_and_grad(_weighted, argnums=1, has_aux=True)
        (_, both), slope = differentiate(new(rngs()), x, weight)
        shared = rngs()
        one, two = new(shared), new(shared)
        undisturbed = mask(two)
        masks = [kept, mask(layer), undisturbed, mask(one)]
        dropped = jnp.stack([jnp.sum(~mask) for mask in masks])
        shared = rngs()
        other_one, other_two = new(shared), new(shared)
        drop(other_one)
        others = [x[0], x[:10].reshape(2, 5, -1), x[:12].reshape(2, 2, 3, -1)]
        in_four_axes = mask_of(layer, others[-1])
        nothing_dropped = subject.constructor(NAME, replace(case, values={**case.values, "rate": 0.0}), rngs())()
        evaluated = new(rngs())
        evaluated.eval()
        quiet = drop(evaluated)
        evaluated.train()
        return {
            "values.factor_of_kept": jnp.sum(jnp.abs(out)) / jnp.sum(jnp.abs(x) * kept),
            "values.largest_error": _error(out, x, rate),
            "values.largest_error_in_other_shapes": jnp.stack([_error(layer(other), other, rate) for other in others]),
            "values.largest_error_at_rate_0": jnp.max(jnp.abs(drop(nothing_dropped) - x)),
            "fraction": jnp.mean(kept, dtype=jnp.float32),
            "gradient.largest_error": jnp.max(jnp.abs(slope * (1 - rate) - weight * (both != 0))),
            "masks.same_in_two_calls": _same(kept, masks[1]),
            "masks.same_in_two_compiled_calls": _same(compiled(jitted, x) != 0, compiled(jitted, x) != 0),
            "masks.same_in_two_rows": _same(kept[0], kept[1]),
            "masks.same_in_two_columns": _same(kept[:, 0], kept[:, 1]),
            "masks.same_in_two_parts_of_a_batch": jnp.stack(
                [_same(one, other) for one, other in (jnp.moveaxis(in_four_axes, axis, 0)[:2] for axis in range(3))]
            ),
            # By chance, four masks drop equally many of 100,000 numbers once in 10 million times.
            "masks.as_many_dropped_in_four_calls": _same(dropped[1:], dropped[0]),
            "stream.same_with_equal_keys": _same(kept, mask(new(rngs()))),
            "stream.same_with_another_dropout_key": _same(kept, mask(new(rngs(dropout=1)))),
            "stream.same_with_another_params_key": _same(kept, mask(new(rngs(params=1)))),
            "layers.same_in_two_layers": _same(masks[3], undisturbed),
            "layers.changed_by_a_call_of_the_other": 1 - _same(undisturbed, mask(other_two)),
            "modes.largest_change_in_eval": jnp.max(jnp.abs(quiet - x)),
            "modes.drops_when_back_in_train": jnp.any(mask(evaluated) == 0).astype(jnp.int32),
        }

    return subject.run(program, case, given(case, "x"), given(case, "seeds"))


def _error(out: jax.Array, x: jax.Array, rate: float) -> jax.Array:
    """The largest error of the numbers that were kept."""
    out = _checked(out, x)
    return jnp.max(jnp.abs(out - jnp.where(out != 0, x / (1 - rate), 0)))


def _checked(out: Any, x: jax.Array) -> jax.Array:
    """The output of a dropout. Raises BadOutputError if it has not the shape of its input."""
    if not isinstance(out, jax.Array) or out.shape != x.shape:
        raise BadOutputError(f"`{NAME}` returned {described(out)}; it must return an array of the shape {x.shape}")
    return out


def _weighted(layer: Any, x: jax.Array, weight: Any) -> tuple[jax.Array, jax.Array]:
    out = layer(x)
    return jnp.sum(weight * out), out


def predicting(subject: Subject, case: Case) -> Reading:
    """The prediction of a model in training, its gradient, and which of its parts drop afterwards."""

    def program(kernel: jax.Array, x: jax.Array) -> Arrays:
        model = Model(x.shape[1], kernel)
        output = named(subject.call("predict", model, x), "output")
        weight = cotangent("output", output["output"]) if "output" in output else 0

        def projected(x: jax.Array) -> jax.Array:
            return jnp.sum(weight * subject.call("predict", Model(x.shape[1], kernel), x))

        slope = jax.grad(projected)(x)
        first, second, third = jnp.split(model(x), 3, axis=-1)
        return {
            **output,
            "output.gradient_of_x": slope,
            "dropped_after.drop": jnp.any(first == 0).astype(jnp.int32),
            "dropped_after.never": jnp.any(second == 0).astype(jnp.int32),
            "dropped_after.in_a_list_of_parts": jnp.any(third == 0).astype(jnp.int32),
        }

    width = given(case, "x").shape[1]
    return subject.run(program, case, to_fill("kernel", (width, width), "float32"), given(case, "x"))


def stacking(subject: Subject, case: Case) -> Reading:
    """The shapes and outputs of a stack of layers, which of its layers are equal, and the spread of its kernels."""
    depth: Any = case.values["num_layers"]
    width: Any = case.values["d_model"]

    def program(kernel: jax.Array, x: jax.Array, seeds: jax.Array) -> Arrays:
        def new(seed: jax.Array) -> nnx.Rngs:
            return nnx.Rngs(jax.random.key(seed))

        def make(rngs: nnx.Rngs, depth: int = depth) -> Any:
            layers = subject.call("make_layers", depth, width, rngs, returns=(nnx.Linear, "an nnx.Linear"))
            shape = layers.kernel[...].shape
            if shape != (depth, width, width):
                raise BadOutputError(f"the kernel has the shape {shape}; it must be {(depth, width, width)}")
            return layers

        rngs = new(seeds[0])
        layers, later, again, other = make(rngs), make(rngs), make(new(seeds[0])), make(new(seeds[1]))
        start = layers.kernel[...]
        equal = jnp.all(start[:, None] == start[None], axis=(2, 3)) & ~jnp.eye(depth, dtype=bool)
        result = {
            "same.layers": jnp.any(equal).astype(jnp.int32),
            "same.with_equal_keys": _same(start, again.kernel[...]),
            "same.with_another_key": _same(start, other.kernel[...]),
            "same.in_two_calls_with_one_rngs": _same(start, later.kernel[...]),
            "spread": jnp.sqrt(jnp.mean(start**2)),
            "stack.bias": layers.bias[...],
            "stack.bias_of_one_layer": make(new(seeds[0]), 1).bias[...],
        }
        layers.kernel[...] = kernel
        outputs = nnx.vmap(lambda layer, x: layer(x), in_axes=(0, None))(layers, x)
        return {**result, "stack.output": outputs}

    kernel = to_fill("kernel", (depth, width, width), "float32")
    return subject.run(program, case, kernel, given(case, "x"), given(case, "seeds"))


def _same(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.all(left == right).astype(jnp.int32)


PROBES = {"dropping": dropping, "predicting": predicting, "stacking": stacking}
