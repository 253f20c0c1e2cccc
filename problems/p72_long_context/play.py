"""Problem 72, played: which pairs slow down, and how many keys a small model finds at four times its context."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines
from problems.p72_long_context.problem import BASE, CONTEXT, ENOUGH, K, trained
from problems.p72_long_context.two_heads import weights_on_answers

TIMES, KEYS = 4, 16
QWEN3 = 128, 1e6, 4.0, 32_768  # K, base, factor, original


def play(module: LearnerModule) -> Exhibits:
    """What each pair is divided by, the keys that are found with three kinds of frequencies, and the weight on each."""
    pairs = np.arange(QWEN3[0] // 2)
    slowed = QWEN3[1] ** (-2 * pairs / QWEN3[0]) / np.asarray(module.yarn(*QWEN3)[0])
    kept, divided = (int(np.sum(np.abs(slowed - times) < 1e-3)) for times in (1, QWEN3[2]))
    yield Lines(
        "What the frequencies of Qwen3's 64 pairs are divided by, to read four times as far",
        (
            Line("yours", pairs, slowed),
            Line("position interpolation", pairs, np.full(len(pairs), QWEN3[2])),
        ),
        f"{kept} fast pairs are left as they are, {divided} slow ones are divided by 4, and the others are in between."
        if slowed[0] < 1.01 and slowed[-1] > 3.99
        else f"The fastest pair is divided by {slowed[0]:.2f} and the slowest by {slowed[-1]:.2f}. They should be "
        "divided by 1 and by 4.",
        x="pair",
        y="divided by",
    )

    previous, matching = map(jnp.asarray, trained())
    T = TIMES * CONTEXT
    places = jnp.arange(KEYS) * (T // KEYS) + 11

    def weights(frequencies: Any, scale: float) -> np.ndarray:
        frequencies = jnp.asarray(frequencies, jnp.float32)
        return np.asarray(
            weights_on_answers(
                lambda x, positions: jnp.asarray(module.rotate(x, positions, frequencies, scale)),
                previous, matching, places, T,
            )
        )  # fmt: skip

    plain = BASE ** (-np.arange(0, K, 2) / K)
    frequencies, scale = module.yarn(K, BASE, float(TIMES), CONTEXT)
    kinds = {
        "yours": weights(frequencies, scale),
        "yours, without the scale": weights(frequencies, 1.0),
        "as in the training": weights(plain, 1.0),
        "all divided by 4": weights(plain / TIMES, 1.0),
    }
    found = {name: int(np.sum(weight > ENOUGH)) for name, weight in kinds.items()}
    yield Bars(
        f"Keys that a model trained on {CONTEXT} positions finds among {T:,}",
        tuple(Bar(name, count) for name, count in found.items()),
        f"of {KEYS}",
        f"With your frequencies and your scale, it finds all {KEYS}. Nothing was trained for that."
        if found["yours"] == KEYS
        else f"With your functions, it misses {KEYS - found['yours']} keys.",
    )
    far = T - 2 - np.asarray(places)
    yield Lines(
        "The weight on the answer, by how far back it is",
        tuple(Line(name, far[::-1], weight[::-1]) for name, weight in kinds.items()),
        f"The training reached {CONTEXT} positions back. With the frequencies of the training, the weight falls soon "
        "after. Without the scale, it falls a little, because there are four times as many tokens."
        if found["yours"] == KEYS
        else "Where your curve is low, the key is not found. All pairs divided: the head that looks at the token "
        "before misses it. Slow pairs not divided: the weight falls far back.",
        x="positions back",
        y="weight",
    )
