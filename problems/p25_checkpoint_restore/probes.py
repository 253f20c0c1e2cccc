"""Probes of problem 25: a model and an optimizer are saved, then restored. Run in workers."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint  # noqa: F401  imported before the confinement, as every submission needs it
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Reading, Subject
from grader.worker.toy_models import CallCounter, ToyLM, mid_training, model_factory

_numbers = itertools.count()


def restored(subject: Subject, case: Case) -> Reading:
    """Every restored leaf, the loss after one more update, and how often `make` ran for real."""
    values = case.values
    model, optimizer = mid_training(_make(case), case.seed)
    path = _saved(subject, model, optimizer)
    make = CallCounter(_make(case))
    model, optimizer = _restore(subject, path, make)
    arrays = {**named(nnx.state(model), "model"), **named(nnx.state(optimizer), "optimizer")}
    token_ids = jnp.asarray(values["token_ids"])
    return Reading(
        {
            **jax.tree.map(np.asarray, arrays),
            "next_loss": _next_loss(model, optimizer, token_ids),
            "real_calls_of_make": np.int32(make.real_calls),
        }
    )


def refused(subject: Subject, case: Case) -> Reading:
    """1 if restoring into a model of another width raises an exception, 0 if it returns a result."""
    path = _saved(subject, *mid_training(_make(case), case.seed))
    _restore(subject, path, _make(case))  # a `restore` that refuses everything must not pass
    try:
        _restore(subject, path, _make(case, width="other_d_model"))
    except NotImplementedError:
        raise
    except Exception:
        return Reading({"raises": np.int32(1)})
    return Reading({"raises": np.int32(0)})


def _make(case: Case, width: str = "d_model") -> Callable[[], Any]:
    return model_factory(case.values["vocab_size"], case.values[width], case.values["d_ff"])


def _saved(subject: Subject, model: ToyLM, optimizer: nnx.Optimizer) -> str:
    path = str(Path.cwd() / f"checkpoint-{next(_numbers)}")
    subject.save(path, model, optimizer)
    return path


def _restore(subject: Subject, path: str, make: Callable[[], Any]) -> tuple[Any, Any]:
    pair = subject.call("restore", path, make)
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], nnx.Optimizer)):
        raise BadOutputError(f"`restore` must return (model, optimizer); yours returned {described(pair)}")
    return pair[0], pair[1]


def _next_loss(model: ToyLM, optimizer: nnx.Optimizer, token_ids: jax.Array) -> jax.Array:
    def loss(model: ToyLM) -> jax.Array:
        logits = jax.vmap(model)(token_ids[:, :-1])
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, token_ids[:, 1:]))

    optimizer.update(model, nnx.grad(loss)(model))
    return loss(model)


PROBES = {"restored": restored, "refused": refused}
