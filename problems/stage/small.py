"""A small model around one layer by a learner, and how it learns stories with that layer and without."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Line, Lines, Progress
from problems.stage.tuning import Tuner, target_log_probabilities
from problems.stage.weights import POCKET, held_out

D, FEED_FORWARD = POCKET.d_model, 192
T, BATCH, STEPS, GAP, LEARNING_RATE = 32, 8, 36, 4, 5e-3


class Small(nnx.Module):
    """The trained embedding, one layer that mixes positions or none, a feed-forward network, and the tied head."""

    def __init__(self, mixer: nnx.Module | None, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Param(jnp.asarray(POCKET.arrays["embed.embedding"]))
        self.mixer: Any = mixer
        self.norms = nnx.List([nnx.LayerNorm(D, rngs=rngs) for _ in range(3)])
        self.up, self.down = nnx.Linear(D, FEED_FORWARD, rngs=rngs), nnx.Linear(FEED_FORWARD, D, rngs=rngs)

    def into_mixer(self, ids: Any) -> jax.Array:
        """What the layer of the learner gets, (..., T, D)."""
        return self.norms[0](self.embed[...][ids])

    def __call__(self, ids_BT: Any) -> jax.Array:
        x_BTD = self.embed[...][ids_BT]
        if self.mixer is not None:
            x_BTD = x_BTD + jax.vmap(lambda x_TD: self.mixer(x_TD))(self.into_mixer(ids_BT))
        x_BTD = x_BTD + self.down(nnx.relu(self.up(self.norms[1](x_BTD))))
        return self.norms[2](x_BTD) @ self.embed[...].T


def cache_kib(layer: Any, contexts: Sequence[int]) -> list[float]:
    """The size of the cache of a layer for each context, in KiB."""
    return [sum(leaf.nbytes for leaf in jax.tree.leaves(layer.empty_cache(context))) / 1024 for context in contexts]


def learn(layers: Mapping[str, nnx.Module | None]) -> Generator[Progress, None, tuple[Lines, list[Small]]]:
    """Trains a model around each layer on the same stories. Returns the chart of the losses, with no caption, and the
    models."""
    rows_NT = np.stack([ids[:T] for ids in held_out(BATCH * STEPS // 2)])
    curves, models = [], []
    for number, (name, layer) in enumerate(layers.items()):
        tuner, losses = Tuner(Small(layer, nnx.Rngs(0)), target_log_probabilities, LEARNING_RATE), []
        for step in range(STEPS):
            ids_BT = rows_NT[np.arange(step * BATCH, (step + 1) * BATCH) % len(rows_NT)]
            losses.append(tuner.step(ids_BT, lambda log_p: -jnp.mean(log_p)))
            yield Progress(number * STEPS + step + 1, len(layers) * STEPS, losses[-1])
        curves.append(Line(name, np.arange(GAP, STEPS + 1, GAP), np.reshape(losses, (-1, GAP)).mean(axis=1)))
        models.append(tuner.model)
    return Lines("A small model learns stories", tuple(curves)), models
