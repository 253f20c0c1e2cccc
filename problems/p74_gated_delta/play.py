"""Problem 74, played: what the learner's state answers, how large it becomes, and whether chunks change it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Table

NAMES = ("Lily", "Tom", "Mia", "Ben")
PLACES = ("park", "shop", "school", "house", "river")
TOLD = "Lily park, Tom shop, Mia school, Lily house, Ben park, Tom river, Lily shop, Mia park, Lily river, Ben house"
K = 24
TURNS, PART = 24, 16
LENGTH, CHUNKS = 50, (1, 3, 16, 50)
ROUNDING = 1e-4  # a larger difference of two outputs is a mistake


def play(module: LearnerModule) -> Exhibits:
    """Who is where, as the state tells it; the size of the state along a text; one text in chunks of several
    lengths."""
    yield _answers(module.delta_rule)
    yield _sizes(module.delta_rule)
    yield _cuts(module.delta_rule)


def _answers(delta_rule: Any) -> HeatMap:
    """What the state returns for each name after each sentence."""
    rng = np.random.default_rng(0)
    keys, values = rng.standard_normal((len(NAMES), K)), np.eye(len(PLACES))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    told = [tuple(sentence.split()) for sentence in TOLD.split(", ")]
    rule, state = jax.jit(delta_rule, static_argnums=6), jnp.zeros((K, len(PLACES)))
    summed, where = np.zeros((K, len(PLACES))), dict[str, str]()
    reads, texts, right, right_of_sum = [], [], 0, 0
    for name, place in told:
        key, value = keys[NAMES.index(name)], values[PLACES.index(place)]
        arrays = [np.float32(x[None]) for x in (key, key, value)]
        _, state = rule(*arrays, np.ones(1, "float32"), np.zeros(1, "float32"), state, 1)
        summed, where = summed + np.outer(key, value), {**where, name: place}
        read = keys @ np.asarray(state)
        reads.append([read[n].max() if each in where else 0.0 for n, each in enumerate(NAMES)])
        answers = [PLACES[read[n].argmax()] if each in where else "" for n, each in enumerate(NAMES)]
        texts.append(answers)
        right += sum(where.get(each) == answer for each, answer in zip(NAMES, answers, strict=True))
        of_sum = (keys @ summed).argmax(1)
        right_of_sum += sum(where.get(each) == PLACES[of_sum[n]] for n, each in enumerate(NAMES))
    asked = sum(bool(text) for column in texts for text in column)
    return HeatMap(
        "Where is everybody?",
        NAMES,
        tuple(f"{name} {place}" for name, place in told),
        (Plane(np.transpose(reads), texts=np.transpose(texts)),),
        f"Each column adds a sentence, and each row asks the state for a name. {right} of {asked} answers are the last "
        f"place that was told. A sum of all values, without erasing, gives {right_of_sum}."
        + ("" if right > right_of_sum else " Your rule is no better: does a key return its new value alone?"),
        meaning="how strongly it is returned",
    )


def _sizes(delta_rule: Any) -> Lines:
    """The length of the state along a text whose keys are long, handed on from call to call."""
    rng = np.random.default_rng(1)
    rule, state, summed = jax.jit(delta_rule, static_argnums=6), jnp.zeros((K, K)), np.zeros((K, K))
    lengths, of_sum = [], []
    for _ in range(TURNS):
        q, k, v = rng.standard_normal((3, PART, K)).astype("float32")
        beta, nothing = np.full(PART, 0.9, "float32"), np.zeros(PART, "float32")
        _, state = rule(q, k, v, beta, nothing, state, 8)
        summed += np.einsum("tk,tm->km", 0.9 * k / np.linalg.norm(k, axis=1, keepdims=True), v)
        lengths.append(float(jnp.linalg.norm(state)))
        of_sum.append(float(np.linalg.norm(summed)))
    at = PART * (1 + np.arange(TURNS))
    if np.isnan(lengths[-1]):
        said = "Your state is not a number: something in it became NaN."
    elif lengths[-1] < of_sum[-1]:
        said = (
            "What is corrected stays as large as the values are. A sum grows with the text, which is why linear "
            "attention needs a decay."
        )
    else:
        said = "Your state grows without end. Are the keys normalized, and is what they return subtracted?"
    return Lines(
        "The size of a state that never decays",
        (Line("your rule", at, lengths), Line("a sum of all values", at, of_sum)),
        said,
        x="tokens",
        y="root of the sum of its squares",
    )


def _cuts(delta_rule: Any) -> Table:
    """How far the outputs and states of other chunks are from those of chunks of one, on a text whose keys repeat."""
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((3, LENGTH, K)).astype("float32")
    k = k[rng.integers(0, 4, LENGTH)]
    arrays = (q, k, v, np.full(LENGTH, 0.9, "float32"), np.full(LENGTH, -0.01, "float32"), jnp.zeros((K, K)))
    results = [jax.jit(delta_rule, static_argnums=6)(*arrays, chunk) for chunk in CHUNKS]
    apart = [
        float(np.max([jnp.max(jnp.abs(one - other)) for one, other in zip(results[0], each, strict=True)]))
        for each in results
    ]
    return Table(
        f"One text of {LENGTH} tokens, cut in several ways",
        ("chunk", "turns of the loop", "largest difference from chunks of 1"),
        tuple(
            (str(chunk), str(-(-LENGTH // chunk)), "rounding" if far < ROUNDING else f"{far:.0e}")
            for chunk, far in zip(CHUNKS, apart, strict=True)
        ),
        "However the text is cut, the outputs and the last state are the same but for rounding."
        if all(far < ROUNDING for far in apart)
        else "The outputs or the last state depend on where the text is cut. Look at what happens at a border.",
    )
