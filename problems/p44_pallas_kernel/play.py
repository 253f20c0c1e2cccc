"""Problem 44, played: the grid of the learner's kernel, and the trained model with that kernel for its norms."""

import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Plane, Table
from problems.stage import telling
from problems.stage.model import EPSILON, gpt, normalizing, stream
from problems.stage.programs import floats, kernels
from problems.stage.weights import POCKET, encode, token

STORY = "Lily had a red ball. Tom wanted the ball. He took it and ran to"
BLOCK, D = 4, POCKET.d_model
OPENING = "Once there was a playful"


def play(module: LearnerModule) -> Exhibits:
    """The steps of the kernel, its rows before and after, its memory, and a story told with it."""
    ids_T = encode(STORY)
    x_TD, ones_D = stream(ids_T, 2), jnp.ones(D)
    T = len(ids_T)
    found = kernels(lambda x, weight: module.rms_norm(x, weight, EPSILON, BLOCK), floats(T, D), floats(D))
    yield Table(
        f"Your kernel on {T} tokens, {BLOCK} at a time",
        ("kernel", "steps of its grid", "what a step sees"),
        tuple(
            (str(number + 1), " × ".join(map(str, grid)), ", ".join(blocks))
            for number, (grid, blocks) in enumerate(found)
        )
        or (("none", "", "Your function calls no kernel."),),
        f"An accelerator copies one block to its fast memory, computes, and writes the block back. {T} tokens need "
        f"{-(-T // BLOCK)} steps; the last one hangs over the end by {-T % BLOCK}.",
    )
    sizes = [
        np.sqrt(np.mean(np.square(np.asarray(each)), axis=1))
        for each in (x_TD, module.rms_norm(x_TD, ones_D, EPSILON, BLOCK))
    ]
    rows = tuple(f"step {step + 1}" for step in range(-(-T // BLOCK)))
    filled = [np.append(size, np.zeros(-T % BLOCK)).reshape(-1, BLOCK) for size in sizes]
    words = np.array([*(token(each) for each in ids_T), *[""] * (-T % BLOCK)]).reshape(-1, BLOCK).tolist()
    yield HeatMap(
        "The size of each token's vector before and after",
        rows,
        tuple(f"row {row + 1}" for row in range(BLOCK)),
        tuple(Plane(values, name, words) for values, name in zip(filled, ("before", "after"), strict=True)),
        "Every row is normalized alone, in whatever block it is."
        if np.allclose(sizes[1], 1, atol=1e-2)
        else "After your kernel, not every row has the size 1.",
        "root of the mean square",
        high=float(max(2.0, *np.nan_to_num(sizes[0]))),
    )
    parts = normalizing(
        lambda x, scale, bias, epsilon: module.rms_norm(x - x.mean(axis=-1, keepdims=True), scale, epsilon, 32) + bias
    )
    told = telling.tell(gpt(**parts), 60, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, with your kernel in every norm",
        telling.judged(told, "Your kernel normalizes as the norm of the model does.", gpt()),
    )
