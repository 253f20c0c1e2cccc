"""Problem 04, played: what the learner's norm does to the vectors inside of the trained model."""

import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars
from problems.stage import model, telling
from problems.stage.lens import TEXT, lens
from problems.stage.weights import POCKET, encode

STORY = "Mia had a red ball. One day, Mia lost her ball in the park."


def play(module):
    """The size of the vectors before and after the norm, what each block would say with it, and a story."""
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
            if np.allclose(sizes, 1, atol=0.02)
            else f"After your norm, single tokens have sizes from {np.min(sizes):.2f} to {np.max(sizes):.2f}; each must have 1."
        ),
        names=("before", "normalized"),
    )
    parts = model.normalizing(module.layer_norm)
    yield lens(
        "What the model would say if it ended after each block, with your norm",
        f"The model has read “{TEXT}”. Read a column downwards: at first a token stands only for itself, and block by block the "
        "guess at the next token comes together.",
        **parts,
    )
    told = telling.tell(model.gpt(**parts), tokens=60)
    yield telling.story(told, "A story by the trained model, with your norm everywhere", telling.judged(told))


def size(x_TD):
    """The size of each row, (T,)."""
    return np.sqrt(np.mean(np.square(np.asarray(x_TD)), axis=-1))
