"""Problem 61: induction heads, by weights written by hand, and the scores by which they are found."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

MODEL, WEIGHTS, SCORES, COMPOSITIONS = "attention_only", "induction_weights", "head_scores", "compositions"


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a model of two layers, and token ids (T,), some of which occur twice."""
    V, T = sizes["V"], sizes["T"]
    return {"V": V, "D": sizes["D"], "K": sizes["K"], "P": T + 2, "token_ids": rng.integers(0, V, T).astype("int32")}


def repeated(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A row of different tokens, again and again, as long as the positions reach."""
    V, p, T = sizes["V"], sizes["p"], sizes["T"]
    return {"vocab_size": V, "max_T": T, "token_ids": rng.permutation(V)[:p][_indices(T, p)].astype("int32")}


def _indices(T: int, period: int) -> list[int]:
    return [t % period for t in range(T)]


def scattered(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """All tokens once, then some of them again in another order, in a text shorter than `max_T`."""
    import numpy as np

    V, T = sizes["V"], sizes["T"]
    ids = np.concatenate([rng.permutation(V), rng.integers(0, V, T - V)])
    return {"vocab_size": V, "max_T": T + sizes["more"], "token_ids": ids.astype("int32")}


def patterns(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The attention of some heads on a text that repeats: rows that sum to 1, with nothing on later positions."""
    import numpy as np

    T = sizes["T"]
    weights = rng.uniform(0.1, 3.0, (sizes["H"], T, T)) * np.tri(T)
    return {
        "patterns": (weights / weights.sum(axis=2, keepdims=True)).astype("float32"),
        "period": sizes["p"],
    }


def in_words(case: Case, difference: Difference) -> str:
    """A sentence on what the hand-written model does at a position."""
    leaf = difference.path.rpartition(".")[2]
    if leaf == "tokens":
        return (
            f"at position {difference.index[0]}, the likeliest next token is {difference.got}, expected "
            f"{difference.expected}"
        )
    if leaf == "sure":
        return f"at position {difference.index[0]}, the next token has a probability of 0.9 or less"
    layer, there = {
        "previous": (0, "the position before"),
        "induction": (1, "positions after earlier occurrences of the token"),
    }[leaf]
    looks = "it is spread over several" if difference.got.startswith("-") else f"most is on position {difference.got}"
    return f"at position {difference.index[0]}, layer {layer} puts 0.9 of its attention or less on {there}; {looks}"


def written(name: str, points: int, leaf: str, cases: str) -> Check:
    return exact(name, points, "written", leaf, cases=cases, in_words=in_words)


# Rows of a table of 50,257 tokens are about 0.004 long, and logits are not much larger.
SMALL = Tolerance(rtol=2e-4, atol=2e-6)
ROWS = {"V": (9, 11), "T": (14, 15), "p": (7,)}

PROBLEM = Problem(
    title="Induction heads",
    minutes=120,
    builds_on=(2, 3),
    entries=(
        Entry(MODEL, ("weights", "token_ids"), returns=("logits", "patterns")),
        Entry(WEIGHTS, ("vocab_size", "max_T")),
        Entry(SCORES, ("patterns", "period"), returns=("previous", "induction")),
        Entry(COMPOSITIONS, ("weights",), returns=("queries", "keys", "values")),
    ),
    cases={
        "cases": Cases(story, {"V": (7, 8), "D": (10,), "K": (6,), "T": (5, 6)}, draws=2),
        "one token": Cases(
            story, {"V": (50_257,), "D": (3,), "K": (2,), "T": (1,)}, draws=1, covers=("vocabulary", "coprime", "one")
        ),
        "twice": Cases(repeated, ROWS, draws=1),
        # Scores that are large enough among 14 positions need not be so among 120.
        "long": Cases(repeated, {"V": (61,), "T": (122,), "p": (61,)}, draws=1),
        "three times": Cases(repeated, {"V": (6, 8), "T": (13,), "p": (5,)}, draws=1),
        "scattered": Cases(scattered, {"V": (8, 10), "T": (17,), "more": (3,)}, draws=2),
        "patterns": Cases(patterns, {"H": (3,), "T": (8, 9), "p": (4, 3)}, draws=2),
    },
    checks=(
        Check("patterns of the model", 1, "forward", leaves="output.patterns"),
        Check("logits of the model", 1, "forward", leaves="output.logits"),
        Check("model of one token", 1, "forward", leaves="output", cases="one token", tolerance=SMALL),
        written("previous-token head", 2, "previous", "twice"),
        written("induction head", 2, "induction", "twice"),
        written("copied tokens", 2, "tokens", "twice"),
        written("sure of the copied tokens", 1, "sure", "twice"),
        written("copied at the third time", 1, "tokens", "three times"),
        written("copied from anywhere in a text", 2, "tokens", "scattered"),
        written("previous-token head in a long text", 1, "previous", "long"),
        written("sure of the copied tokens in a long text", 1, "sure", "long"),
        Check("scores of previous-token heads", 1, "values", {"entry": SCORES}, "output.previous", "patterns"),
        Check("scores of induction heads", 1, "values", {"entry": SCORES}, "output.induction", "patterns"),
        Check("compositions", 2, "composed", leaves="output"),
    ),
)  # fmt: skip
