"""Probes of problem 26: a run is saved, then resumed in another process. Run in workers."""

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
from grader.worker.toy_models import Stories, ToyLM, mid_training, model_factory

BEFORE, AFTER = 5, 4
CHECKPOINT = "run"


@eager
def saving(subject: Subject, case: Case) -> Reading:
    """The folder with a saved run, after a few steps."""
    model, optimizer = mid_training(_make(case), case.seed)
    rngs, loader = nnx.Rngs(noise=case.seed, dropout=case.seed + 1), _loader(case)()
    _steps(model, optimizer, rngs, loader, BEFORE)
    folder = new_folder()
    subject.save(str(folder / CHECKPOINT), model, optimizer, rngs, loader)
    return Reading(files=folder / CHECKPOINT)


@eager
def resumed(subject: Subject, case: Case) -> Reading:
    """Resumes the run and takes the next steps. In a process that has only the files of the saved run."""
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    path = str(subject.received / CHECKPOINT)
    model, optimizer, rngs, loader = subject.call(
        "resume", path, lambda: (*_make(case)(), nnx.Rngs(noise=1, dropout=2)), _loader(case)
    )
    kinds = ((model, ToyLM), (optimizer, nnx.Optimizer), (rngs, nnx.Rngs), (loader, Stories))
    for value, kind in kinds:
        if not isinstance(value, kind):
            raise BadOutputError(f"`resume` returned {described(value)} in place of the {kind.__name__}")
    return Reading(_steps(model, optimizer, rngs, loader, AFTER))


def _make(case: Case) -> Callable[[], Any]:
    return model_factory(*(int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff")), drawn=True)


def _loader(case: Case) -> Callable[[], Stories]:
    return lambda: Stories(case.values["rows"], int(case.values["batch_size"]))


@nnx.jit
def _step(model: ToyLM, optimizer: nnx.Optimizer, token_ids: jax.Array, noise: jax.Array) -> jax.Array:
    def loss(model: ToyLM) -> jax.Array:
        logits = jax.vmap(model)(token_ids[:, :-1]) + noise
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, token_ids[:, 1:]))

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    model.temperature[...] = model.temperature[...] * 0.99
    return value


def _steps(model: Any, optimizer: Any, rngs: Any, loader: Any, steps: int) -> dict[str, Any]:
    batches, noises, keys, losses = [], [], [], []
    for _ in range(steps):
        batch = jnp.asarray(next(loader))
        keys.append(jax.random.key_data(rngs.dropout()))
        noise = jax.random.normal(rngs.noise(), (len(batch), batch.shape[1] - 1, 1))
        losses.append(_step(model, optimizer, batch, noise))
        batches.append(batch)
        noises.append(noise)
    return {
        "batches": jnp.stack(batches),
        "noise": jnp.stack(noises),
        "noise.dropout": jnp.stack(keys),
        "losses": jnp.stack(losses),
        **jax.tree.map(np.asarray, named(nnx.state(model), "model") | named(nnx.state(optimizer), "optimizer")),
    }


PROBES = {"saving": saving, "resumed": resumed}
