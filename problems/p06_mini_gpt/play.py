"""Problem 06, played: the learner's GPT tells a story with trained weights, and babbles with random ones."""

import numpy as np

from problems.stage import telling, weights
from problems.stage.weights import POCKET

TOKENS = 145


def play(module):
    """A story by the trained model, then one by the same model before training."""
    context_ids = np.zeros(POCKET.max_T, np.int32)
    make = module.construct("MiniGPT", seed=0, context_ids=context_ids, **POCKET.shape)
    model = weights.build(make, POCKET.arrays, "MiniGPT")
    told = telling.tell(model, TOKENS)
    yield telling.story(told, "Your GPT tells a story, with trained weights", telling.judged(told))
    babbled = telling.tell(weights.put(model, weights.scrambled(POCKET.arrays), "MiniGPT"), TOKENS, most=50)
    yield telling.story(
        babbled,
        "The same GPT with random weights babbles",
        "Only the weights differ: all that your model knows of stories is in them. The next problems put it there.",
    )
