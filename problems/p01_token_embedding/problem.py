"""Problem 01: token and position embedding."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient, parameters
from grader.problem import EXACT, Case, Cases, Check, Difference, Entry, Problem

EMBED = "TokenAndPositionEmbed"


def shorter_than_context(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of T tokens and a table with `spare` more positions than that.

    The first and the last token of the vocabulary occur, because programs may treat them as padding.
    """
    token_ids = rng.integers(0, sizes["V"], sizes["T"]).astype("int32")
    token_ids[rng.choice(sizes["T"], 2, replace=False)] = 0, sizes["V"] - 1
    return {
        "vocab_size": sizes["V"],
        "max_T": sizes["T"] + sizes["spare"],
        "d_model": sizes["D"],
        "token_ids": token_ids,
    }


def one_token(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of one token, the last of a large vocabulary, and a table of `spare` more positions."""
    V = sizes["V"]
    return {
        "vocab_size": V,
        "max_T": 1 + sizes["spare"],
        "d_model": sizes["D"],
        "token_ids": rng.integers(V - 5, V, 1).astype("int32"),
    }


def too_long(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story with more tokens than the table has positions.

    A table of one row is added to any story without an error of JAX's.
    """
    return shorter_than_context({**sizes, "spare": -sizes["spare"]}, rng)


def stories(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The inputs of both stories."""
    T, max_T = len(values["token_ids"]), values["max_T"]
    return {**values, "stories": f"all {T} tokens, which are too many, and the first {max_T}, which fit"}


def happened(case: Case, wrong: Difference) -> str:
    T, max_T = len(case.values["token_ids"]), case.values["max_T"]
    if wrong.path.endswith(".output"):
        return f"the output for a story of exactly {max_T} tokens, as many as there are positions, is wrong"
    fits = wrong.path.startswith("fits")
    what = "returned a result" if wrong.got == "a returned value" else f"raised {wrong.got}"
    return f"a story of {max_T if fits else T} tokens for {max_T} positions {what}; {wrong.expected} expected"


SIZES = {"T": (5, 7), "spare": (2, 3), "V": (7, 11), "D": (4, 6)}
ONE = {
    "spare": (1, 2),
    "V": (50_257,),
    "D": (3, 5),
}  # GPT-2's vocabulary, whose ids do not fit into 16 bits with a sign
LENGTHS: dict[str, Any] = {
    "cases": "lengths",
    "tolerance": EXACT,
    "words": {
        0: "a returned value", 1: "an exception of another kind",
        2: "ValueError", 3: "AssertionError", 4: "IndexError", 5: "TypeError",
    },
    "in_words": happened,
}  # fmt: skip

PROBLEM = Problem(
    title="Token and position embedding",
    minutes=40,
    entries=(Entry(EMBED, ("token_ids",), construct=("vocab_size", "max_T", "d_model")),),
    cases={
        "cases": Cases(shorter_than_context, SIZES),
        "one token": Cases(one_token, ONE, draws=1, covers=("vocabulary", "coprime", "one")),
        "lengths": Cases(too_long, {**SIZES, "T": (5,), "spare": (2, 4)}, draws=2, show=stories),
    },
    checks=(
        parameters(EMBED, points=1, initial=["pos_embed"]),
        *output_and_gradient(EMBED, wrt="parameters", points=(1, 1)),
        output(EMBED, points=1, name="one token of a large vocabulary", cases="one token"),
        Check(
            "a story of exactly max_T tokens fits", 1, "lengths", {"entry": EMBED}, "fits", **LENGTHS,
            advice="The last row of the table belongs to the last token of such a story. Raise only if T is larger "
                "than max_T.",
        ),
        Check(
            "a story longer than max_T raises", 1, "lengths", {"entry": EMBED}, "raises", **LENGTHS,
            advice="Compare T with max_T before anything else, and raise ValueError. JAX does not: an index that is "
            "out of range gives the last row or NaN, and a slice is cut off, all without an error of its own.",
        ),
    ),
)  # fmt: skip
