"""Probes of problem 34: models that are averaged, copied in part, and brought back to an earlier state. Run in
workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Given, Reading, Subject, described, fill_state, given, named
from grader.problem import Case


class Part(nnx.Module):
    """A linear layer and a count of its calls. Inside the trunk, it has a part named like one of the model's."""

    def __init__(self, d_in: int, d_out: int) -> None:
        linear: Any = nnx.Linear(d_in, d_out, kernel_init=nnx.initializers.zeros_init(), rngs=nnx.Rngs(0))
        self.kernel, self.bias = linear.kernel, linear.bias
        self.calls = nnx.Variable(jnp.float32(0))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls[...] += 1
        return x @ self.kernel[...] + self.bias[...]


class Model(nnx.Module):
    """A trunk, a head, and a running mean. Paths: `trunk.head.kernel`, `trunk.tail.0.kernel`, `head.kernel`, `mean`."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        self.mean = nnx.BatchStat(jnp.zeros(d_model))
        self.trunk = nnx.Dict(head=Part(d_model, d_ff), tail=nnx.List([Part(d_ff, d_model)]))
        self.head, self.head2 = Part(d_model, 1), Part(d_model, 1)

    def __call__(self, x: jax.Array) -> jax.Array:
        self.mean[...] = 0.5 * self.mean[...] + 0.5 * x.mean(0)
        tail: Any = self.trunk.tail  # a list, which Flax's types do not know
        h = tail[0](jnp.tanh(self.trunk.head(x - self.mean[...])))
        return (self.head(h) * jnp.tanh(self.head2(h)))[:, 0]


def averaging(subject: Subject, case: Case) -> Reading:
    """The average of two models, and both after the average was changed in place."""

    def program(first: Any, second: Any) -> Arrays:
        a, b = _model(case, first), _model(case, second)
        average = _model_of(subject.call("average", a, b))
        result = named(nnx.state(average), "average")
        is_param = {f"average.is_param.{path}": np.int32(1) for path in named(nnx.state(average, nnx.Param), "")}
        _spoil(average)
        return {**result, **is_param, **named(nnx.state(a), "afterwards.a"), **named(nnx.state(b), "afterwards.b")}

    return subject.run(program, case, _state(case, "a"), _state(case, "b"))


def copying(subject: Subject, case: Case) -> Reading:
    """A model after its head was copied from another, what the head's variables from before hold, and the other
    model."""

    def program(first: Any, second: Any) -> Arrays:
        model, source = _model(case, first), _model(case, second)
        held: dict[str, Any] = {"kernel": model.head.kernel, "bias": model.head.bias, "calls": model.head.calls}
        before = named(nnx.state(_model(case, second)), "")
        returned = subject.call("copy_part", model, source, "head")
        if returned is not None:
            raise BadOutputError(
                f"`copy_part` returned {described(returned)}; it must change the model and return None"
            )
        another = _model(case, first)
        subject.call("copy_part", another, source, "trunk")
        result = {
            **named(nnx.state(model), "model"),
            **named(nnx.state(another), "model_with_other_trunk"),
            **{f"held.{name}": held[name][...] for name in held},
        }
        _spoil(model)
        after = named(nnx.state(source), "")
        changed = [jnp.any(after[path] != before[path]) if path in after else True for path in before]
        return {**result, "source_changed": jnp.asarray(sum(changed) > 0, jnp.int32)}

    return subject.run(program, case, _state(case, "a"), _state(case, "b"))


def restoring(subject: Subject, case: Case) -> Reading:
    """The model and its optimizer after a restore, the same after training and a second restore, and losses after
    both."""

    @nnx.jit
    def step(model: Model, optimizer: nnx.Optimizer[Model], x: jax.Array) -> jax.Array:
        loss, gradients = nnx.value_and_grad(lambda model: jnp.mean((model(x) - 1) ** 2))(model)
        optimizer.update(model, gradients)
        return loss

    def program(first: Any, batches: jax.Array) -> Arrays:
        model = _model(case, first)
        optimizer = nnx.Optimizer(model, optax.adam(case.values["learning_rate"]), wrt=nnx.Param)
        state = model, optimizer
        held = nnx.state(optimizer)  # its own Variables, as `model.head.kernel` is one
        kernel = model.head.kernel

        def train(start: int) -> jax.Array:
            return jnp.stack([step(*state, x) for x in batches[start : start + 2]])

        train(0)
        present = _numbers(*state)
        saved = subject.call("snapshot", *state)
        kept = jax.tree.leaves(saved)
        train(2)
        followed = any(old is not new for old, new in zip(kept, jax.tree.leaves(saved), strict=False))
        for number in range(2):
            returned = subject.call("restore", *state, saved)
            if returned is not None:
                raise BadOutputError(
                    f"`restore` returned {described(returned)}; it must change both objects and return None"
                )
            if number == 0:
                restored = {
                    **named(nnx.state(model), "restored.model"),
                    "restored.model.kernel_held_before": kernel[...],
                    **named(nnx.state(optimizer), "restored.optimizer"),
                    **named(held, "restored.optimizer.held_before"),
                    # Within the program, a copy equals what it is a copy of, bit for bit.
                    **{f"changed.{path}": _differs(now, present[path]) for path, now in _numbers(*state).items()},
                }
                losses = train(4)
        return {
            **restored,
            # No check compares this. It lets the diagnosis tell a snapshot that changed from one that was not used.
            "unchecked.snapshot_changed": np.int32(followed),
            "losses": losses,
            **named(nnx.state(model), "again.model"),
            **named(nnx.state(optimizer), "again.optimizer"),
        }

    return subject.run(program, case, _state(case, "a"), given(case, "batches"))


def _numbers(model: Any, optimizer: Any) -> Arrays:
    return {**named(nnx.state(model), "model"), **named(nnx.state(optimizer), "optimizer")}


def _differs(one: Any, other: Any) -> jax.Array:
    return jnp.any(jnp.asarray(one) != other).astype(jnp.int32)


def _sizes(case: Case) -> tuple[int, int]:
    return int(case.values["d_model"]), int(case.values["d_ff"])


def _state(case: Case, name: str) -> Any:
    """The state of a model, to be filled with other numbers for each `name`."""
    state = nnx.state(nnx.eval_shape(lambda: Model(*_sizes(case))))
    return fill_state(state, lambda path, shape, dtype: Given("filled", f"{name}.{path}", shape, dtype))


def _model(case: Case, state: Any) -> Model:
    model = Model(*_sizes(case))
    nnx.update(model, state)
    return model


def _model_of(value: Any) -> nnx.Module:
    if not isinstance(value, Model):
        raise BadOutputError(f"`average` returned {described(value)}; it must return a model of the same class as a")
    return value


def _spoil(model: nnx.Module) -> None:
    """Changes every variable in place."""
    for _, variable in nnx.to_flat_state(nnx.state(model)):
        variable[...] = variable[...] - 7


PROBES = {"averaging": averaging, "copying": copying, "restoring": restoring}
