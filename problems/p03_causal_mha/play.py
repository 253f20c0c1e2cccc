"""Problem 03, played: where each head of the trained model looks, by the learner's module, and what it tells with
it."""

from grader.exhibits import Exhibits, LearnerModule
from problems.stage import attention, model, telling
from problems.stage.weights import POCKET

TEXT = "Lily had a red ball. Tom wanted the ball. He took it"
LAYER = 2


def play(module: LearnerModule, text: str) -> Exhibits:
    """The weights of each head of the last layer on a text, then a story by the trained model with this attention."""
    make = module.construct("CausalMHA", d_model=POCKET.d_model, num_heads=POCKET.num_heads)
    ids_T = attention.few(text)
    yield attention.exhibit(
        attention.by_module(make, ids_T, LAYER, "CausalMHA"),
        ids_T,
        LAYER,
        f"Where the heads of layer {LAYER + 1} look, by your module",
    )
    told = telling.tell(model.gpt(make_block=model.with_attention(make)), tokens=90)
    caption = telling.judged(told, model.gpt())
    yield telling.story(told, "A story by the trained model, with your attention in every layer", caption)
