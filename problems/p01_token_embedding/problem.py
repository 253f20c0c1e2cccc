"""Problem 01: token and position embedding."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output_and_gradient, parameters
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


def too_long(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story with more tokens than the table has positions, and in which order it (1) and one that fits (0) are embedded."""
    calls = "".join("01"[number % 2] for number in rng.permutation(6))
    return {**shorter_than_context({**sizes, "spare": -sizes["spare"]}, rng), "calls": calls}


def returned(case: Case, wrong: Difference) -> str:
    T, max_T = len(case.values["token_ids"]), case.values["max_T"]
    happened = "returned a result" if wrong.got == "a returned value" else f"raised {wrong.got}"
    return f"a story of {T} tokens for {max_T} positions {happened}; ValueError expected"


SIZES = {"T": (5, 7), "spare": (2, 3), "V": (7, 11), "D": (4, 6)}

PROBLEM = Problem(
    title="Token and position embedding",
    entries=(Entry(EMBED, ("token_ids",), construct=("vocab_size", "max_T", "d_model")),),
    cases={"cases": Cases(shorter_than_context, SIZES), "too long": Cases(too_long, SIZES, draws=1)},
    checks=(
        parameters(EMBED, points=1, initial=["pos_embed"]),
        *output_and_gradient(EMBED, wrt="parameters", points=(2, 1)),
        Check(
            "a story longer than max_T raises", 1, "too_long", {"entry": EMBED}, cases="too long", tolerance=EXACT,
            words={0: "a returned value", 1: "ValueError", 2: "another exception"}, in_words=returned,
            advice="JAX clamps an out-of-range index instead of raising an error, so a story that is too long silently "
            "gets wrong positions. Compare T with max_T and raise ValueError.",
        ),
    ),
)  # fmt: skip
