"""Problem 01, played: what a trained table of tokens and positions knows."""

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Plane, Table
from problems.stage import weights
from problems.stage.weights import POCKET, encode, token

WORDS = (" mom", " red", " park", " she", " ball")
NEAREST = 5
STEP = 8  # positions between two rows of the map
SAME = 1e-6  # vectors that differ by less are the same
CHANGED = 0.01  # a difference of two cosines that rounding does not explain


def play(module: LearnerModule) -> Exhibits:
    """The nearest neighbors of a few words, and which positions are alike, both seen through the learner's module."""
    make = module.construct(
        "TokenAndPositionEmbed", vocab_size=POCKET.vocab_size, max_T=POCKET.max_T, d_model=POCKET.d_model
    )
    arrays = {name: POCKET.arrays[name] for name in ("embed.embedding", "pos_embed")}
    embed = weights.build(make, arrays, "TokenAndPositionEmbed")

    each = jax.vmap(lambda token_id: embed(token_id[None])[0])(jnp.arange(POCKET.vocab_size))
    alike = similarity(each)
    yield Table(
        "Words that your table puts close to each other",
        ("word", "nearest, with the cosine of the angle between them"),
        tuple((word.strip(), nearest(alike, *encode(word))) for word in WORDS),
        said(
            alike,
            similarity(arrays["embed.embedding"]),
            same="All words have the same vector, so your module does not tell the model which word it reads.",
            right="Nobody told the model that these belong together. It moved their rows toward each other, because "
            "the same words come before and after them.",
        ),
    )

    (same,) = encode(WORDS[-1])
    alike = similarity(embed(jnp.full(POCKET.max_T, same)))
    shown = np.arange(0, 160, STEP)
    labels = tuple(str(position) for position in shown)
    yield HeatMap(
        "The same word at different positions: how alike its vectors are",
        labels,
        labels,
        (Plane(alike[np.ix_(shown, shown)]),),
        said(
            alike,
            similarity(arrays["pos_embed"]),
            same="All these vectors are equal, so your module does not tell the model where a word stands. To the "
            "model, a story is a bag of words.",
            right="Neighbors are alike and distant positions are not, so the model can tell where in a story a word "
            "stands.",
        ),
        "similarity",
        low=-0.6,
    )


def nearest(alike_VV: np.ndarray, own: int) -> str:
    """The words that are most like a word, with how alike they are."""
    if not np.isfinite(alike_VV[own]).all():
        return "none: some of these are not numbers"
    order = [other for other in np.argsort(-alike_VV[own]) if other != own][:NEAREST]
    return ", ".join(f"{token(other).strip()} {alike_VV[own, other]:.2f}" for other in order)


def said(alike_NN: np.ndarray, trained_NN: np.ndarray, *, same: str, right: str) -> str:
    """What the similarities say: `same` if all vectors are, `right` if they are those of the trained table."""
    if not np.isfinite(alike_NN).all():
        return "Some vectors hold NaN or infinity, so no cosine is a number."
    if alike_NN.min() > 1 - SAME:
        return same
    if np.abs(alike_NN - trained_NN).max() > CHANGED:
        return "In the trained table some of these cosines are different: your module changes the vectors of its rows."
    return right


def similarity(x_ND: jax.Array | np.ndarray) -> np.ndarray:
    """The cosine similarity of each pair of rows, after the mean row is subtracted; 1 everywhere if all rows are
    equal."""
    centered = np.asarray(x_ND, np.float64) - np.asarray(x_ND, np.float64).mean(0)
    if np.abs(centered).max() < SAME:
        return np.ones((len(centered), len(centered)))
    sizes = np.linalg.norm(centered, axis=1, keepdims=True)
    unit = centered / np.maximum(sizes, 1e-6)
    return unit @ unit.T
