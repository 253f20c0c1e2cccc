"""Small runs on stories, and the trained model with the parameters of problem 06, for plays that save, place or train
them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint  # noqa: F401  imported before the confinement, as every submission needs it
from flax import nnx

from grader.authoring import ToyGPT, ToyLM, model_factory
from grader.exhibits import Bar, Bars, Line, Lines
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import POCKET, held_out, put

T = 32
make = model_factory(POCKET.vocab_size, 64, 128, drawn=True)  # a fresh (model, optimizer)
ROWS = np.stack([ids[:T] for ids in held_out(32)])


def trained() -> ToyGPT:
    """The trained model as a module with the parameters of problem 06's, whose forward pass is
    `toy_models.gpt_logits`."""
    sizes = (POCKET.vocab_size, POCKET.d_model, POCKET.num_heads, POCKET.d_ff, POCKET.num_layers, POCKET.max_T)
    model = nnx.eval_shape(lambda: ToyGPT(*sizes))
    put(model, POCKET.arrays, "MiniGPT")
    return model


@nnx.jit
def step(model: ToyLM, optimizer: nnx.Optimizer[ToyLM], ids_BT: Any, noise: Any) -> jax.Array:
    """One step of a small run. Tokens are left out at random: where `noise` is above 0.9."""

    def loss(model: ToyLM) -> jax.Array:
        log_BT = target_log_probabilities(jax.vmap(model), ids_BT)
        kept_BT = noise[:, 1:] < 0.9
        return -jnp.sum(log_BT * kept_BT) / jnp.sum(kept_BT)

    value, slopes = nnx.value_and_grad(loss)(model)
    optimizer.update(model, slopes)
    return value


def saved(folder: Path, model: nnx.Module) -> Bars:
    """The bytes below a folder in which this model was saved with its optimizer, beside those of its parameters."""
    written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    parameters = sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
    return Bars(
        "What you saved",
        (Bar("the folder", written), Bar("the parameters", parameters), Bar("both moments", 2 * parameters)),
        "bytes",
        "Adam keeps two numbers for each parameter. Without them, a resumed run would take steps of a different size. "
        + (
            "Your folder is smaller than all of them together: it is compressed, or it does not hold them all."
            if written < 3 * parameters
            else "Your folder has room for all of them."
        ),
    )


def on_each_other(title: str, curves: Mapping[str, list[float]], first: int, equal: str) -> Lines:
    """The losses of a run and of one that was stopped and resumed, which are the same numbers from step `first` on, or
    not."""
    whole, resumed = curves.values()
    steps = np.arange(1, len(whole) + 1)
    apart = max(abs(a - b) for a, b in zip(whole[first:], resumed, strict=True))
    return Lines(
        title,
        tuple(Line(name, steps[-len(of) :], of) for name, of in curves.items()),
        f"From step {first + 1} on, the second run is the resumed one. "
        + (equal if apart == 0 else f"Its losses are up to {apart:.2g} off: from there on it is another run."),
    )
