"""Probes of problem 26: a run is saved, then resumed in another process. A third process takes the next steps. Run in
workers."""

from collections.abc import Callable, Mapping
from pathlib import Path
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
    Stories,
    Subject,
    ToyLM,
    described,
    eager,
    fill_state,
    mid_training,
    model_factory,
    named,
    new_folder,
)
from grader.problem import Case

AFTER = 4  # steps after the resume
LATE = 2**25
CHECKPOINT = "run"
POSITION = ("epoch", "step")  # of the loader


@eager
def saving(subject: Subject, case: Case) -> Reading:
    """The folder with a saved run, after a few steps. Every part is at a place of its own, so none follows from
    another."""
    rng = np.random.default_rng(np.asarray(case.values[STATE])[-4:].view(np.uint32))
    model, optimizer = mid_training(_make(case), case.values[STATE])
    rngs, loader = nnx.Rngs(**{name: int(rng.integers(1 << 31)) for name in ("noise", "dropout")}), _loader(case)()
    _steps(model, optimizer, rngs, loader, int(rng.integers(2, 10)))
    # Counts of a long run, for which 16 bits or a float32 are too small: those of the streams are odd and above 2^24.
    for stream, count in zip((rngs.noise, rngs.dropout), rng.choice(LATE, 2, replace=False), strict=True):
        stream.count[...] = jnp.uint32(2 * LATE + 2 * count + 1)
    # At least two batches into an epoch, so that one batch back is not its start.
    loader.set_state({"epoch": LATE + 2 * int(rng.integers(LATE)) + 1, "step": int(rng.integers(2, _batches(case)))})
    folder = new_folder()
    subject.save(str(folder / CHECKPOINT), model, optimizer, rngs, loader)
    return Reading(files=folder / CHECKPOINT)


@eager
def resumed(subject: Subject, case: Case) -> Reading:
    """The state of the resumed run. In a process that has only the files of the saved run."""
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    path = str(subject.received / CHECKPOINT)
    model, optimizer, rngs, loader = subject.call("resume", path, _fresh(case), _loader(case))
    kinds = ((model, ToyLM), (optimizer, nnx.Optimizer), (rngs, nnx.Rngs), (loader, Stories))
    for value, kind in kinds:
        if not isinstance(value, kind):
            raise BadOutputError(f"`resume` returned {described(value)} in place of the {kind.__name__}")
    return Reading(named(nnx.state((model, optimizer, rngs)), "run") | named(loader.get_state(), "loader"))


def stepped(arrays: Mapping[str, Any], files: Path | None, case: Case) -> Reading:
    """The next steps of the resumed run."""

    def value(path: str, shape: tuple[int, ...], dtype: Any) -> Any:
        found = jnp.asarray(arrays.get(f"run.{path}", np.nan))
        if jnp.issubdtype(dtype, jax.dtypes.prng_key) and found.dtype == jnp.uint32 and found.shape == (2,):
            found = jax.random.wrap_key_data(found)
        if (found.shape, found.dtype) != (shape, dtype):
            raise BadOutputError(
                f"`{path.partition('.')[2]}` of the resumed run has another shape or dtype than in the saved run"
            )
        return found

    graphdef, state = nnx.split(nnx.eval_shape(_fresh(case)))
    model, optimizer, rngs = nnx.merge(graphdef, fill_state(state, value))
    position = {name: int(arrays.get(f"loader.{name}", -1)) for name in POSITION}
    if position["epoch"] < 0 or position["step"] not in range(_batches(case)):
        raise BadOutputError(f"the loader of the resumed run is at {position}, which is not a position in the data")
    loader = _loader(case)()
    loader.set_state(position)
    return Reading(_steps(model, optimizer, rngs, loader, AFTER))


def _fresh(case: Case) -> Callable[[], Any]:
    return lambda: (*_make(case)(), nnx.Rngs(noise=1, dropout=2))


def _batches(case: Case) -> int:
    """The number of batches of an epoch."""
    return len(case.values["rows"]) // int(case.values["batch_size"])


def _make(case: Case) -> Callable[[], Any]:
    sizes = (int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff"))
    return model_factory(*sizes, drawn=True, model_type=DeepLM)


def _loader(case: Case) -> Callable[[], Stories]:
    return lambda: Stories(case.values["rows"], int(case.values["batch_size"]))


@nnx.jit
def _step(model: ToyLM, optimizer: nnx.Optimizer[Any], token_ids: jax.Array, noise: jax.Array) -> jax.Array:
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
READERS = {"resumed": stepped}
