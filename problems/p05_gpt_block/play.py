"""Problem 05, played: what the trained model would say after each of the learner's blocks."""

from typing import Any

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule
from problems.stage import model, telling
from problems.stage.lens import TEXT, lens
from problems.stage.weights import POCKET, build, held_out

OPENING = "Once there was a curious"


def play(module: LearnerModule) -> Exhibits:
    """The guess after each block, what each block adds, then a story by all of them."""
    make = module.construct("GPTBlock", d_model=POCKET.d_model, num_heads=POCKET.num_heads, d_ff=POCKET.d_ff)
    build(make, POCKET.below("blocks.0."), "GPTBlock")  # says what does not fit, if something does not
    parts: dict[str, Any] = {"make_block": model.block(make)}
    yield lens(
        "What the model would say if it ended after each of your blocks",
        f"The model has read “{TEXT}”. Read a column downwards: at first a token stands only for itself. Each block "
        "adds what it found to that, until the vector stands for the token that comes next.",
        **parts,
    )
    (ids_T,) = held_out(1)
    depths = range(POCKET.num_layers + 1)
    mine = [telling.surprise_of(model.gpt(depth, **parts), ids_T) for depth in depths]
    own = telling.surprise_of(model.gpt(), ids_T)
    names = ("the embedding alone", *(f"and block {depth}" for depth in depths[1:]))
    yield Bars(
        "How much a new story surprises the model, block by block",
        (*map(Bar, names[:-1], mine), Bar(names[-1], mine[-1], own)),
        "bits a token",
        f"From {mine[0]:.1f} bits to {mine[-1]:.2f}: each of your blocks adds to the guess what those before could not "
        "know."
        if np.isclose(mine[-1], own, rtol=0.01) and mine == sorted(mine, reverse=True)
        else f"After all blocks, {mine[-1]:.2f} bits, where a right block leads to {own:.2f}.",
    )
    told = telling.tell(model.gpt(**parts), tokens=90, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the trained model, made of your blocks",
        telling.judged(told, "Your blocks do what its own blocks do.", model.gpt()),
    )
