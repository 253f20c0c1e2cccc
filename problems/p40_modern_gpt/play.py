"""Problem 40, played: the learner's modern GPT tells a story, and what its windows are worth."""

from typing import Any

import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule
from problems.stage import telling
from problems.stage.model import gpt
from problems.stage.modern import modern
from problems.stage.weights import MODERN, POCKET, build, held_out

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness sample {model} --pieces {workspace} --max-tokens 40"
TOKENS = 165
WINDOWS = (8, 32)


def play(module: LearnerModule) -> Exhibits:
    """A story with trained weights, then how a new one surprises it: with all positions, with windows, and beside
    problem 06."""

    def model(window: int, full_every: int) -> Any:
        make = module.construct(
            "ModernGPT", **MODERN.shape, num_kv_heads=MODERN.num_kv_heads, window=window, full_every=full_every,
            rope_base=MODERN.rope_base, norm_epsilon=MODERN.norm_epsilon,
        )  # fmt: skip
        return build(make, MODERN.arrays, "ModernGPT")

    whole = model(MODERN.max_T, 1)
    told = telling.tell(whole, TOKENS)
    yield telling.story(
        told,
        "Your modern GPT tells a story, with trained weights",
        telling.judged(
            told, "No part of the model that wrote this is from 2019: you have built one of today.", modern()
        ),
    )
    (ids_T,) = held_out(1)
    mine, own = telling.surprise_of(whole, ids_T), telling.surprise_of(modern(), ids_T)
    bars = [Bar("all positions", mine, own)]
    bars += [
        Bar(f"a window of {window}", telling.surprise_of(model(window, MODERN.num_layers), ids_T)) for window in WINDOWS
    ]
    former = telling.surprise_of(gpt(), ids_T)
    same = np.isclose(mine, own, rtol=0.01)
    fewer = 1 - MODERN.parameters / POCKET.parameters
    yield Bars(
        "How much a story that it has never seen surprises it",
        tuple(bars),
        "bits a token",
        f"{mine:.3f} bits, where the model of problem 06 has {former:.3f}: less, with {fewer:.0%} fewer parameters. A "
        f"window of {WINDOWS[0]} or {WINDOWS[1]} tokens in {MODERN.num_layers - 1} of its {MODERN.num_layers} layers "
        "hides what it was trained to look up: windows are chosen before training."
        if same
        else "Not the number of a right model: yours computes something else than what these weights were trained for.",
    )
