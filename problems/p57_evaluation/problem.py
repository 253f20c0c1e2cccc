"""Problem 57: perplexity by sliding windows, bits per byte, and multiple choice."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact, output
from grader.problem import Cases, Check, Entry, Problem

V, WIDTH = 11, 6


def model(rng: Any, vocab_size: int = V, width: int = WIDTH) -> dict[str, Any]:
    """The arrays of a small model, whose logits are not normalized."""
    return {
        "embedding": rng.standard_normal((vocab_size, width)).astype("float32"),
        "head": (rng.standard_normal((width, vocab_size)) + 0.5).astype("float32"),
    }


def text(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text of the ids of a model with a context."""
    return {
        "token_ids": rng.integers(0, V, sizes["N"]).astype("int32"),
        "context": sizes["C"],
        "stride": sizes["S"],
        **model(rng),
    }


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text of the ids of a narrow model with many tokens, which is sure of others. Most ids need more than 15
    bits."""
    sized = model(rng, sizes["V"], sizes["width"])
    sized["head"] *= 100  # log-probabilities of hundreds below 0, whose exponentials round to 0
    token_ids = rng.integers(sizes["V"] // 3, sizes["V"], sizes["N"]).astype("int32")
    return {"token_ids": token_ids, "context": sizes["C"], "stride": sizes["S"], **sized}


def apart(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A text in windows that do not overlap."""
    return text({"N": 11, "C": sizes["C"], "S": sizes["C"]}, rng)


def probabilities(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Log-probabilities of a text, of which some tokens have many bytes and special ones none. The first has 9, the
    last 2."""
    import numpy as np

    N = sizes["N"]
    byte_lengths = rng.permutation([0, 1, 1, 2, 3, 4, 5, 7, 9])
    first, last = np.argmax(byte_lengths), np.argmax(byte_lengths == 2)
    token_ids = np.array([first, *rng.permutation([*range(9), *rng.integers(0, 9, N)]), last])
    return {
        "log_probs": -rng.exponential(2.0, len(token_ids) - 1).astype("float32"),
        "token_ids": token_ids.astype("int32"),
        "byte_lengths": byte_lengths.astype("int32"),
    }


def question(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A prompt and options of different lengths, the first of which has a single token."""
    lengths = [1, *rng.permutation([2, 3, 4])[: sizes["options"] - 1]]
    options = {f"option_{i}": rng.integers(0, V, n).astype("int32") for i, n in enumerate(lengths)}
    prompt_ids = rng.integers(0, V, sizes["P"]).astype("int32")
    return {"prompt_ids": prompt_ids, **options, "context": sizes["C"], **model(rng)}


def scores(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores of options: the shortest is the likeliest, another one per byte, and a third one per root of the bytes."""
    import numpy as np

    K = sizes["options"]
    byte_counts = rng.integers(8, 12, K)
    log_probs = -byte_counts * rng.uniform(1.2, 1.5, K)
    for option, count, score in zip(rng.permutation(K), (3, 8, 30), (-5.0, -6.5, -14.0), strict=False):
        byte_counts[option], log_probs[option] = count, score - rng.random() / 10
    return {"log_probs": np.float32(log_probs), "byte_counts": byte_counts.astype("int32")}


def ties(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Two options with the highest score, and two with the highest score per byte. All quotients are exact."""
    import numpy as np

    low, high = np.array([[-16, 2], [-64, 16]]), np.array([[-8, 1], [-32, 16]])
    rows = np.concatenate([low[:1], rng.permutation(np.repeat(high, 2, axis=0)), low[1:]])
    return {"log_probs": rows[:, 0].astype("float32"), "byte_counts": rows[:, 1].astype("int32")}


PROBLEM = Problem(
    title="Evaluation",
    minutes=90,
    builds_on=(7, 15),
    entries=(
        Entry("score_text", ("model", "token_ids", "context", "stride")),
        Entry("perplexity", ("log_probs",)),
        Entry("bits_per_byte", ("log_probs", "token_ids", "byte_lengths")),
        Entry("score_options", ("model", "prompt_ids", "options", "context")),
        Entry("choose_option", ("log_probs", "byte_counts"), returns=("by_sum", "by_byte")),
    ),
    cases={
        "windows": Cases(text, {"N": (12, 16), "C": (6,), "S": (2, 3)}, draws=2),
        "apart": Cases(apart, {"C": (5, 1)}, draws=2),
        "many tokens": Cases(
            large, {"N": (23,), "C": (11,), "S": (7,), "V": (50_257,), "width": (2,)}, draws=1,
            covers=("vocabulary", "coprime")
        ),
        "short": Cases(text, {"N": (2, 6, 7), "C": (6,), "S": (4,)}, draws=2),
        "one token": Cases(text, {"N": (1,), "C": (6,), "S": (4,)}, draws=1),
        "probabilities": Cases(probabilities, {"N": (5, 900)}, draws=2),  # e^-1800 is 0, also in float64
        "questions": Cases(question, {"P": (3, 5), "options": (3, 4), "C": (12,)}, draws=2),
        "one option": Cases(question, {"P": (1,), "options": (1,), "C": (12,)}, draws=1, covers=("one",)),
        "long prompts": Cases(question, {"P": (9,), "options": (4,), "C": (7,)}, draws=1),
        "scores": Cases(scores, {"options": (3, 5)}, draws=3),
        "ties": Cases(ties, {"options": (6,)}, draws=2),
    },
    checks=(
        Check("sliding windows", 3, "scoring_text", leaves="log_probs", cases="windows", calls=("score_text",)),
        Check("windows without overlap", 1, "scoring_text", leaves="log_probs", cases="apart", calls=("score_text",)),
        Check("text of a large vocabulary", 1, "scoring_text", leaves="log_probs", cases="many "
            "tokens", calls=("score_text",)),
        Check("text in one window", 1, "scoring_text", leaves="log_probs", cases="short", calls=("score_text",)),
        Check("text of one token", 1, "scoring_text", leaves="log_probs", cases="one token", calls=("score_text",)),
        output("perplexity", points=1, name="perplexity", cases="probabilities"),
        output("bits_per_byte", points=2, name="bits per byte", cases="probabilities"),
        Check("scores of options", 2, "scoring_options", leaves="scores", cases="questions", calls=("score_options",)),
        Check("one option after one token", 1, "scoring_options", leaves="scores", cases="one option",
              calls=("score_options",)),
        Check("prompt longer than the context", 1, "scoring_options", leaves="scores", cases="long prompts",
              calls=("score_options",)),
        exact("choice", 2, "values", "output", options={"entry": "choose_option"}, cases="scores"),
        exact("ties", 1, "values", "output", options={"entry": "choose_option"}, cases="ties"),
    ),
)  # fmt: skip
