"""Problem 06, played: the learner's GPT tells a story with trained weights, and babbles with random ones."""

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule
from problems.stage import telling, weights
from problems.stage.model import gpt
from problems.stage.weights import POCKET, before_training, held_out

TOKENS = 145


def play(module: LearnerModule) -> Exhibits:
    """A story by the trained model, then one by the same model before training."""
    context_ids = np.zeros(POCKET.max_T, np.int32)
    make = module.construct("MiniGPT", seed=0, context_ids=context_ids, **POCKET.shape)
    model = weights.build(make, POCKET.arrays, "MiniGPT")
    told = telling.tell(model, TOKENS)
    yield telling.story(
        told,
        "Your GPT tells a story, with trained weights",
        telling.judged(told, "Your GPT tells it to the end, where it stops by itself.", gpt()),
    )
    (ids_T,) = held_out(1)
    trained = telling.surprise_of(model, ids_T), telling.surprise_of(gpt(), ids_T)
    weights.put(model, before_training().arrays, "MiniGPT")
    babbled = telling.tell(model, TOKENS, most=50)
    yield telling.story(
        babbled,
        "The same GPT with random weights babbles",
        "Only the weights differ: all that your model knows of stories is in them. The next problems put it there.",
        babble=True,
    )
    random = telling.surprise_of(model, ids_T), telling.surprise_of(gpt(weights=before_training()), ids_T)
    yield Bars(
        "How much a story that neither has seen surprises your GPT",
        (Bar("trained weights", *trained), Bar("random weights", *random)),
        "bits a token",
        "The numbers of a right model: yours computes what these weights were trained for."
        if np.allclose((trained[0], random[0]), (trained[1], random[1]), rtol=0.01)
        else "Not the numbers of a right model: yours computes something else than what the weights were trained "
        "for, even if the story reads well.",
    )
