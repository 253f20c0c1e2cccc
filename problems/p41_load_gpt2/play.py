"""Problem 41, played: weights in the format of Hugging Face's GPT-2, loaded by the learner's code, tell a story."""

import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Table
from harness.hugging_face.layouts import LAYOUTS
from harness.hugging_face.parameters import arrays
from problems.stage import telling
from problems.stage.model import gpt
from problems.stage.weights import POCKET

MODEL_TYPES = ("gpt2",)  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness sample {model} --pieces {workspace} --max-tokens 40"
OPENING = "There once was a happy"


def play(module: LearnerModule) -> Exhibits:
    """The file's tensors beside the learner's parameters, then a story before and after loading."""
    layout = next(each for each in LAYOUTS if each.model_type == "gpt2")
    tensors = {name: np.asarray(array) for name, array in layout.tensors(arrays(gpt(), POCKET.vocab_size)).items()}
    model = module.construct("GPT2", **POCKET.shape, max_T=POCKET.max_T)()
    before = telling.tell(model, tokens=90, most=25, prompt=OPENING)
    module.load_gpt2(tensors, model)
    yield Table(
        "What the file holds",
        ("tensor", "shape"),
        tuple(
            (name, " × ".join(map(str, tensors[name].shape)))
            for name in sorted(tensors)
            if ".h." not in name or ".h.0." in name
        ),
        f"The tables, the last norm and the first of {POCKET.num_layers} layers. The queries, keys and values of a "
        "layer are one array, three times as wide.",
    )
    yield telling.story(before, "Your GPT-2 before loading", "Random weights, no story.", babble=True)
    told = telling.tell(model, tokens=90, prompt=OPENING)
    yield telling.story(
        told,
        "Your GPT-2 with the weights of the file",
        telling.judged(told, "Every array of the file has found its place in your GPT-2."),
    )
