"""Probes of problem 25: a model and an optimizer are saved, then restored. Run in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint  # noqa: F401  imported before the confinement, as every submission needs it
from flax import nnx

from grader.authoring import (
    STATE,
    BadOutputError,
    DeepLM,
    Reading,
    Subject,
    ToyLM,
    described,
    eager,
    mid_training,
    model_factory,
    named,
    never_real,
    new_folder,
)
from grader.problem import Case

CHECKPOINT = "checkpoint"


@eager
def saving(subject: Subject, case: Case) -> Reading:
    """The folder with a checkpoint of a model and an optimizer."""
    model, optimizer = mid_training(_make(case), case.values[STATE])
    _overflow(optimizer)
    folder = new_folder()
    subject.save(str(folder / CHECKPOINT), model, optimizer)
    return Reading(files=folder / CHECKPOINT)


@eager
def restored(subject: Subject, case: Case, *, make_runs: bool) -> Reading:
    """Every restored leaf, and the loss after one more update. In a process that has only the files of the checkpoint.

    Unless `make_runs`, calling `make` for real raises: there is no memory for a second model. Then there is no update.
    """
    make = _make(case)
    model, optimizer = _restore(subject, make if make_runs else never_real(make))
    arrays = {**named(nnx.state(model), "model"), **named(nnx.state(optimizer), "optimizer")}
    if not make_runs:
        return Reading(arrays)
    # Copies, because an update changes restored NumPy arrays in place.
    arrays = jax.tree.map(np.array, arrays)
    return Reading({**arrays, "next_loss": _next_loss(model, optimizer, jnp.asarray(case.values["token_ids"]))})


@eager
def refused(subject: Subject, case: Case) -> Reading:
    """For a wrong model of each kind: 1 if restoring into it raises an exception, 0 if that returns a result."""
    make = _make(case)
    others = {
        "d_ff": _make(case, d_ff="other_d_ff"),
        "model": _transposing(make, 0),
        "optimizer": _transposing(make, 1),
    }
    raises = {f"raises.{name}": np.int32(_refuses(subject, other)) for name, other in others.items()}
    _restore(subject, make)  # a `restore` that refuses everything, or after the first time, must not pass
    return Reading(raises)


def _overflow(optimizer: nnx.Optimizer[Any]) -> None:
    """Makes one second moment infinite. Its parameter then rests, and the loss stays finite."""
    found = nnx.to_flat_state(nnx.state(optimizer))
    path, variable = next(each for each in found if each[0][-3:] == ("nu", "head", "bias"))
    moment = variable.get_raw_value()
    nnx.update(optimizer, nnx.from_flat_state([(path, variable.replace(moment.at[0].set(jnp.inf)))]))


def _refuses(subject: Subject, make: Callable[[], Any]) -> bool:
    try:
        _restore(subject, make)
    except NotImplementedError:
        raise
    except Exception:
        return True
    return False


def _transposing(make: Callable[[], Any], which: int) -> Callable[[], Any]:
    """A `make` with a matrix transposed in the model (`which` is 0) or in the optimizer (1): another shape, and as many
    elements."""

    def other() -> tuple[Any, Any]:
        made = make()
        found = nnx.to_flat_state(nnx.state(made[which]))
        path, variable = next(each for each in found if each[1].get_raw_value().ndim == 2)
        nnx.update(made[which], nnx.from_flat_state([(path, variable.replace(variable.get_raw_value().T))]))
        return made

    return other


def _make(case: Case, d_ff: str = "d_ff") -> Callable[[], Any]:
    return model_factory(case.values["vocab_size"], case.values["d_model"], case.values[d_ff], model_type=DeepLM)


def _restore(subject: Subject, make: Callable[[], Any]) -> tuple[Any, Any]:
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    model, optimizer = subject.call("restore", str(subject.received / CHECKPOINT), make)
    if not isinstance(optimizer, nnx.Optimizer):
        raise BadOutputError(f"`restore` returned {described(optimizer)} in place of the optimizer")
    return model, optimizer


@nnx.jit
def _next_loss(model: ToyLM, optimizer: nnx.Optimizer[Any], token_ids: jax.Array) -> jax.Array:
    def loss(model: ToyLM) -> jax.Array:
        logits = jax.vmap(model)(token_ids[:, :-1])
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, token_ids[:, 1:]))

    optimizer.update(model, nnx.grad(loss)(model))
    return loss(model)


PROBES = {"saving": saving, "restored": restored, "refused": refused}
