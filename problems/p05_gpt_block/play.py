"""Problem 05, played: what the trained model would say after each of the learner's blocks."""

from typing import Any

from grader.exhibits import Exhibits, LearnerModule
from problems.stage import model, telling
from problems.stage.lens import TEXT, lens
from problems.stage.weights import POCKET, build


def play(module: LearnerModule) -> Exhibits:
    """The guess after each block, then a story by all of them."""
    make = module.construct("GPTBlock", d_model=POCKET.d_model, num_heads=POCKET.num_heads, d_ff=POCKET.d_ff)
    build(make, POCKET.below("blocks.0."), "GPTBlock")  # says what does not fit, if something does not
    parts: dict[str, Any] = {"make_block": model.block(make)}
    yield lens(
        "What the model would say if it ended after each of your blocks",
        f"The model has read “{TEXT}”. Read a column downwards: at first a token stands only for itself. Each block "
        "adds what it found to that, until the vector stands for the token that comes next.",
        **parts,
    )
    told = telling.tell(model.gpt(**parts), tokens=90)
    yield telling.story(told, "A story by the trained model, made of your blocks", telling.judged(told, model.gpt()))
