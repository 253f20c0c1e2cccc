"""Probes of problem 25: a model and an optimizer are saved, then restored. Run in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint  # noqa: F401  imported before the confinement, as every submission needs it
from flax import nnx

from grader.problem import Case
from grader.worker.files import new_folder
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Reading, Subject, eager
from grader.worker.toy_models import ADAMW, ToyLM, mid_training, model_factory, never_real

CHECKPOINT = "checkpoint"


@eager
def saving(subject: Subject, case: Case) -> Reading:
    """The folder with a checkpoint of a model and an optimizer."""
    model, optimizer = mid_training(_make(case), case.seed)
    folder = new_folder()
    subject.save(str(folder / CHECKPOINT), model, optimizer)
    return Reading(files=folder / CHECKPOINT)


@eager
def restored(subject: Subject, case: Case, *, make_runs: bool) -> Reading:
    """Every restored leaf, and the loss after one more update. In a process that has only the files of the checkpoint.

    Unless `make_runs`, calling `make` for real raises: there is no memory for a second model.
    """
    make = _make(case)
    model, optimizer = _restore(subject, make if make_runs else never_real(make))
    arrays = {**named(nnx.state(model), "model"), **named(nnx.state(optimizer), "optimizer")}
    token_ids = jnp.asarray(case.values["token_ids"])
    # Copies, because an update changes restored NumPy arrays in place.
    return Reading({**jax.tree.map(np.array, arrays), "next_loss": _next_loss(model, optimizer, token_ids)})


@eager
def refused(subject: Subject, case: Case) -> Reading:
    """1 if restoring into a model of another width, or with a transposed array, raises an exception; 0 if it returns a result."""
    others = _make(case, width="other_d_model"), _transposing(_make(case))
    raises = all(_refuses(subject, make) for make in others)
    _restore(subject, _make(case))  # a `restore` that refuses everything, or the second time, must not pass
    return Reading({"raises": np.int32(raises)})


def _refuses(subject: Subject, make: Callable[[], Any]) -> bool:
    try:
        _restore(subject, make)
    except NotImplementedError:
        raise
    except Exception:
        return True
    return False


def _transposing(make: Callable[[], Any]) -> Callable[[], Any]:
    """A `make` whose model has its embedding transposed: another shape, and the same number of elements."""

    def other() -> tuple[Any, Any]:
        model, _ = make()
        model.embed.embedding = nnx.Param(model.embed.embedding[...].T)
        return model, nnx.Optimizer(model, ADAMW, wrt=nnx.Param)

    return other


def _make(case: Case, width: str = "d_model") -> Callable[[], Any]:
    return model_factory(case.values["vocab_size"], case.values[width], case.values["d_ff"])


def _restore(subject: Subject, make: Callable[[], Any]) -> tuple[Any, Any]:
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    model, optimizer = subject.call("restore", str(subject.received / CHECKPOINT), make)
    if not isinstance(optimizer, nnx.Optimizer):
        raise BadOutputError(f"`restore` returned {described(optimizer)} in place of the optimizer")
    return model, optimizer


def _next_loss(model: ToyLM, optimizer: nnx.Optimizer, token_ids: jax.Array) -> jax.Array:
    def loss(model: ToyLM) -> jax.Array:
        logits = jax.vmap(model)(token_ids[:, :-1])
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, token_ids[:, 1:]))

    optimizer.update(model, nnx.grad(loss)(model))
    return loss(model)


PROBES = {"saving": saving, "restored": restored, "refused": refused}
