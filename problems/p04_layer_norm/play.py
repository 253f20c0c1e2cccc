"""Problem 04, played: what the learner's norm does to the vectors inside of the trained model."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule
from problems.stage import model, telling
from problems.stage.weights import POCKET, encode, held_out

ROW, FACTORS, FAINT = (1, 2, 3, 6), (1.0, 0.1, 0.01, 0.003, 0.001), 1e-5
FAR = 1e-3  # sizes that differ by more are not those of one norm
STORY = "Mia had a red ball. One day, Mia lost her ball in the park."
OPENING = "There once was a shy"
NEAR = 0.01  # a share of the surprise


def play(module: LearnerModule) -> Exhibits:
    """The size of the vectors before and after the norm, a story with it, and what is lost without a norm."""
    D = POCKET.d_model
    bars, sizes = [], []
    for layers in range(POCKET.num_layers + 1):
        x_TD = model.stream(encode(STORY), layers)
        normal_TD = module.layer_norm(x_TD, jnp.ones(D), jnp.zeros(D), model.EPSILON)
        sizes.append(size(normal_TD))
        label = f"after block {layers}" if layers else "after the embedding"
        bars.append(Bar(label, size(x_TD).mean(), sizes[-1].mean()))
    yield Bars(
        "The size of a token's vector inside of the model",
        tuple(bars),
        "root of the mean square of its numbers",
        "Each block adds to the vectors, so they grow. "
        + (
            "Your norm hands every block numbers of the same size, 1, wherever it stands."
            if np.allclose(sizes, 1, atol=FAR)
            else f"After your norm, tokens have sizes from {np.min(sizes):.3f} to {np.max(sizes):.3f}; each must have "
            "1."
        ),
        names=("before", "normalized"),
    )
    yield faint(module.layer_norm)
    parts = model.normalizing(module.layer_norm)
    told = telling.tell(model.gpt(**parts), tokens=60, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, with your norm everywhere",
        telling.judged(told, "Your norm hands every block what it was trained to read.", model.gpt()),
    )
    (ids_T,) = held_out(1)
    mine, own = (telling.surprise_of(each, ids_T) for each in (model.gpt(**parts), model.gpt()))
    none = telling.surprise_of(model.gpt(**model.normalizing(lambda x, scale, bias, epsilon: x * scale + bias)), ids_T)
    yield Bars(
        "How much a new story surprises the model",
        (Bar("with your norm", mine, own), Bar("without a norm", none)),
        "bits a token",
        f"With your norm, {mine:.2f} bits a token; without one, {none:.1f}: the blocks were trained to read numbers of "
        "one size."
        if abs(mine - own) < NEAR * own
        else f"With your norm, {mine:.2f} bits a token, where a right one has {own:.2f}.",
    )


def faint(norm: Callable[..., Any]) -> Bars:
    """The size of a short row after the norm, for smaller and smaller numbers in it."""
    bars = []
    for factor in FACTORS:
        x = jnp.array([ROW]) * factor
        right = jax.nn.standardize(x, epsilon=FAINT)
        yours = norm(x, jnp.ones(len(ROW)), jnp.zeros(len(ROW)), FAINT)
        bars.append(Bar(f"times {factor:g}", float(size(yours).mean()), float(size(right).mean())))
    apart = max(bar.apart for bar in bars)
    return Bars(
        f"The row {ROW}, times smaller and smaller numbers, after your norm",
        tuple(bars),
        "root of the mean square of its numbers",
        f"With an epsilon of {FAINT:g}, the norm undoes the factor until the variance comes near epsilon. From there "
        "on the row fades, so what is only noise is not made as large as the rest."
        if apart < FAR
        else f"Your norm and JAX's are up to {apart:.2g} apart. Rows as short and as faint as these show mistakes that "
        f"rows of {POCKET.d_model} ordinary numbers hide.",
        names=("your norm", "JAX's"),
    )


def size(x_TD: jax.Array) -> np.ndarray:
    """The size of each row, (T,)."""
    return np.sqrt(np.mean(np.square(np.asarray(x_TD)), axis=-1))
