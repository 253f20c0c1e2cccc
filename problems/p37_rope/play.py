"""Problem 37, played: how two tokens score by their distance, and what the modern model tells with these rotations."""

import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Line, Lines
from problems.stage import telling
from problems.stage.modern import modern, rotating

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness sample {model} --pieces {workspace} --max-tokens 40"
K, REACH, LATER = 24, 80, 100
OPENING = "Once there was a brave"


def play(module: LearnerModule) -> Exhibits:
    """The score of the same query and key over their distance, at the beginning of a story and later, then a story."""
    distance = np.arange(REACH)

    def scores(start: int) -> np.ndarray:
        same_T1K = jnp.ones((REACH, 1, K)) / jnp.sqrt(K)
        rows = np.asarray(module.rope(same_T1K, jnp.arange(start, start + REACH)))[:, 0]
        return rows @ rows[-1]

    early, later = scores(0)[::-1], scores(LATER)[::-1]
    relative = np.allclose(early, later, atol=1e-3)
    yield Lines(
        "How much a token scores by how far back it is",
        (
            Line("at the beginning of a story", distance, early),
            Line(f"{LATER} tokens later", distance, later),
        ),
        "The same curve: only the distance counts, not the place. The score falls with the distance, in waves: each "
        "pair of numbers turns at a speed of its own."
        if relative and np.ptp(early) > 0.1
        else "The score does not depend on the distance: nothing turns."
        if np.ptp(early) < 0.1
        else "Two curves: your score depends on where in the story the two tokens are, which the model did not learn.",
        x="tokens back",
        y="score",
    )
    told = telling.tell(modern(make_block=rotating(module.rope)), tokens=90, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the modern model, with your rotations",
        telling.judged(told, "With your rotations, each token knows how far away the others are.", modern()),
    )
