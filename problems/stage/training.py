"""A model that is small enough to train while somebody watches, and its curves."""

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.authoring import BadOutputError, described
from grader.exhibits import Line, Progress, Table
from harness.data.pocket import stories
from harness.model.gpt import GPT
from harness.model.loss import token_loss
from harness.model_config import ModelConfig
from problems.stage.weights import scrambled

V, T, B = 128, 48, 16  # characters, and the windows of a batch
CONFIG = ModelConfig(
    vocab_size=V, context=T, d_model=32, num_heads=2, d_ff=64, num_layers=1, norm_epsilon=1e-6, activation="relu"
)
EVERY = 5  # steps between two points of a curve
Curve = Generator[Progress, None, Line]
Step = Callable[[Any], Any]  # of a batch, to the loss before it


class Trainer(Protocol):
    """A step that trains a model of characters."""

    @property
    def model(self) -> nnx.Module:
        """The model as it is now."""


def small(seed: int = 0) -> GPT:
    """The harness's model of characters, with random weights."""
    model = nnx.eval_shape(lambda: GPT(CONFIG, nnx.Rngs(0)))
    state = nnx.state(model, nnx.Param)
    flat = {".".join(map(str, path)): variable for path, variable in nnx.to_flat_state(state)}
    drawn = scrambled({name: np.empty(variable.shape, np.float32) for name, variable in flat.items()}, seed)
    for name, variable in flat.items():
        variable.set_value(jnp.asarray(drawn[name]))
    nnx.update(model, state)
    return model


def batches(steps: int, seed: int = 0) -> np.ndarray:
    """Windows of stories as ids of their characters, (steps, B, T) int32. The same for each seed."""
    needed = steps * B * T
    text = "\n\n".join(stories(needed // 500 + 1, start=seed * 1000))
    ids = np.frombuffer(text.encode("ascii", "replace"), np.uint8)[:needed]
    windows = ids.astype(np.int32).reshape(-1, T)
    return np.random.default_rng(seed).permutation(windows).reshape(steps, B, T)


def babble(model: nnx.Module, seed: int = 0) -> str:
    """A text of T characters that the model continues from "Once", at temperature 0.5. It ends early at a score that is
    no number."""
    prompt = b"Once"
    ids_T = np.zeros(T, np.int32)
    ids_T[: len(prompt)] = list(prompt)
    logits_of = nnx.jit(lambda model, ids_T: model(ids_T))
    rng = np.random.default_rng(seed)
    for place in range(len(prompt), T):
        logits_V = np.asarray(logits_of(model, ids_T)[place - 1], np.float64) / 0.5
        if not np.isfinite(logits_V).all():
            return printed(ids_T[:place])
        odds_V = np.exp(logits_V - logits_V.max())
        ids_T[place] = rng.choice(V, p=odds_V / odds_V.sum())
    return printed(ids_T)


def written(trainers: Mapping[str, Trainer], caption: str) -> Table:
    """What the models of these trainers write, by name, each with the same random numbers."""
    return Table(
        "What each model writes, character by character",
        ("", "after “Once”"),
        tuple((name, babble(trainer.model)) for name, trainer in trainers.items()),
        caption,
    )


def printed(ids_T: np.ndarray) -> str:
    """Ids of characters as a text, with a dot for what cannot be printed."""
    return "".join(chr(each) if 32 <= each < 127 else "·" for each in ids_T)


def mean_loss(model: GPT, ids_BT: jax.Array) -> jax.Array:
    """The harness's loss of a batch, in nats per character."""
    return token_loss(model.hidden(ids_BT)[:, :-1], ids_BT[:, 1:], model.output()) / (B * (T - 1))


class SmallStep:
    """A step that trains the small model: `gradients_of(graph, parameters, batch, step)` returns the loss and the
    gradients.

    `state` is the present state of the optimizer.
    """

    def __init__(
        self, gradients_of: Callable[..., Any], optimizer: optax.GradientTransformation, seed: int = 0
    ) -> None:
        graph, self._parameters = nnx.split(small(seed))
        self._graph = graph
        self.state, self._count = optimizer.init(self._parameters), jnp.int32(0)

        @jax.jit
        def advance(parameters: Any, state: Any, count: jax.Array, batch: Any) -> Any:
            loss, gradients = gradients_of(graph, parameters, batch, count)
            updates, state = optimizer.update(gradients, state, parameters)
            return loss, optax.apply_updates(parameters, updates), state, count + 1

        self._advance = advance

    def __call__(self, batch: Any) -> jax.Array:
        """Takes the step on a batch. Returns the loss before it."""
        loss, self._parameters, self.state, self._count = self._advance(
            self._parameters, self.state, self._count, batch
        )
        return loss

    @property
    def model(self) -> GPT:
        """The model as it is now."""
        return nnx.merge(self._graph, self._parameters)


def by_optimizer(
    optimizer: optax.GradientTransformation, change: Callable[[Any, Any], Any] | None = None, seed: int = 0
) -> SmallStep:
    """A step that trains the small model with this optimizer. `change(step, gradients)` changes the gradients before
    it."""

    def gradients_of(graph: Any, parameters: Any, ids_BT: jax.Array, count: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(lambda p: mean_loss(nnx.merge(graph, p), ids_BT))(parameters)
        return loss, change(count, gradients) if change else gradients

    return SmallStep(gradients_of, optimizer, seed)


def loss_sum(model: GPT, ids_BT: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The harness's loss of all targets of a batch, and their number. Negative ids are padding."""
    hidden_BTD = model.hidden(jnp.maximum(ids_BT, 0))
    targets_BT = ids_BT[:, 1:]
    return token_loss(hidden_BTD[:, :-1], targets_BT, model.output()), jnp.sum(targets_BT >= 0)


def curve(name: str, step: Step, data: Iterable[Any], steps: int) -> Curve:
    """Trains, with reports of progress. Returns the losses, means over EVERY steps, as a curve."""
    x, y, recent = [], [], []
    for index, batch in enumerate(data, 1):
        loss = step(batch)
        if np.shape(loss) != ():
            raise BadOutputError(f"the step returned {described(loss)}; it must return the loss, one number")
        recent.append(float(loss))
        if index % EVERY == 0:
            x.append(float(index))
            y.append(float(np.mean(recent)))
            recent = []
            yield Progress(index, steps, y[-1])
    return Line(name, tuple(x), tuple(y))


def apart(one: Line, other: Line) -> float:
    """The largest distance of two curves; infinite where one has no number and the other has."""
    a, b = np.array(one.y), np.array(other.y)
    if (np.isfinite(a) != np.isfinite(b)).any():
        return float("inf")
    return float(np.nanmax(np.abs(a - b), initial=0.0))
