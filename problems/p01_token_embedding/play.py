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


def play(module: LearnerModule) -> Exhibits:
    """The nearest neighbors of a few words, and which positions are alike, both seen through the learner's module."""
    make = module.construct(
        "TokenAndPositionEmbed", vocab_size=POCKET.vocab_size, max_T=POCKET.max_T, d_model=POCKET.d_model
    )
    arrays = {name: POCKET.arrays[name] for name in ("embed.embedding", "pos_embed")}
    embed = weights.build(make, arrays, "TokenAndPositionEmbed")

    each = jax.vmap(lambda token_id: embed(token_id[None])[0])(jnp.arange(POCKET.vocab_size))
    alike = similarity(each)
    rows = []
    for word in WORDS:
        (own,) = encode(word)
        order = [other for other in np.argsort(-alike[own]) if other != own][:NEAREST]
        rows.append((word.strip(), ", ".join(f"{token(other).strip()} {alike[own, other]:.2f}" for other in order)))
    yield Table(
        "Words that your table puts close to each other",
        ("word", "nearest, with the cosine of the angle between them"),
        tuple(rows),
        "Nobody told the model that these belong together. It moved their rows toward each other, because the same "
        "words come before and after them."
        if float(jnp.abs(each - each[0]).max()) > SAME
        else "All words have the same vector, so your module does not tell the model which word it reads.",
    )

    (same,) = encode(WORDS[-1])
    x_TD = embed(jnp.full(POCKET.max_T, same))
    shown = np.arange(0, 160, STEP)
    labels = tuple(str(position) for position in shown)
    apart = float(jnp.abs(x_TD - x_TD[0]).max())
    yield HeatMap(
        "The same word at different positions: how alike its vectors are",
        labels,
        labels,
        (Plane(similarity(x_TD)[np.ix_(shown, shown)]),),
        "Neighbors are alike and distant positions are not, so the model can tell where in a story a word stands."
        if apart > SAME
        else "The vectors are all the same: your module tells the model nothing about where a word stands. To it, a "
        "story is a bag of words.",
        "similarity",
        low=-0.6,
    )


def similarity(x_ND: jax.Array) -> np.ndarray:
    """The cosine similarity of each pair of rows, after the mean row is subtracted; 1 everywhere if all rows are
    equal."""
    centered = np.asarray(x_ND, np.float64) - np.asarray(x_ND, np.float64).mean(0)
    if np.abs(centered).max() < SAME:
        return np.ones((len(centered), len(centered)))
    sizes = np.linalg.norm(centered, axis=1, keepdims=True)
    unit = centered / np.maximum(sizes, 1e-6)
    return unit @ unit.T
