"""Problem 02, played: where the trained model looks, by the learner's attention, and what it tells with it."""

from grader.exhibits import Exhibits, LearnerModule
from problems.stage import attention, model, telling

TEXT = "Lily had a red ball. Tom wanted the ball. He took it"
LAYER = 1
OPENING = "Once there was a lonely"


def play(module: LearnerModule, text: str) -> Exhibits:
    """The weights of each head of one layer on a text, then a story by the trained model that attends this way."""
    ids_T = attention.few(text)
    yield attention.exhibit(
        attention.by_function(module.causal_attention, ids_T, LAYER),
        ids_T,
        LAYER,
        f"Where the heads of layer {LAYER + 1} look, by your attention",
    )
    told = telling.tell(model.gpt(make_block=model.attending(module.causal_attention)), tokens=90, prompt=OPENING)
    caption = telling.judged(
        told,
        "So this is a story to it. A token is shaded by how much it surprised your model when it wrote it.",
        model.gpt(),
    )
    yield telling.story(told, "A story by the trained model, with your attention in every head", caption)
