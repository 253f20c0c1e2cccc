"""Problem 43: attention in blocks, in memory that grows with T instead of T times T."""

from collections.abc import Mapping
from typing import Any

from grader.checks import memory, output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

ATTENTION = "flash_attention"
WRT = ["q", "k", "v"]
GRADIENT = {"entry": ATTENTION, "wrt": WRT}


def normal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Unit-normal queries, keys and values."""
    values = {name: rng.standard_normal((sizes["T"], sizes["K"])).astype("float32") for name in WRT}
    return {**values, "block": sizes["C"]}


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores whose exponential overflows in float32. They grow from block to block."""
    values = normal(sizes, rng)
    growing = 10 * (1 + rng.random(sizes["T"]).cumsum().astype("float32"))[:, None]
    return {**values, "q": values["q"] * 10, "k": values["k"] * growing}


# Neighboring float32 numbers near 10,000 are 0.001 apart, so the scores themselves, and with them the weights, are that rough.
SATURATED = Tolerance(rtol=2e-3, atol=2e-3)
# Eight times as many numbers as the reference's largest array, which has about as many as q. The scores of one block of
# queries and all keys have four times as many, and all scores have forty times as many.
ARRAYS = Tolerance(rtol=7.0, atol=0.0, room=3)
# Computing every block takes 1.8 times the products of the forward pass. Correct programs differ in how they mask.
FORWARD = Tolerance(rtol=0.45, atol=0.0, room=1.7)
# A pair of blocks takes two products forward and five backward, or seven if the gradients of the queries and those of the keys
# are computed in two loops: 9 / 7 of the reference's work. Computing every block backward takes 1.6 times the work.
BACKWARD = Tolerance(rtol=0.45, atol=0.0, room=1.25)


def array(case: Case, difference: Difference) -> str:
    T = len(case.values["q"])  # type: ignore[arg-type]
    return (
        f"with T = {T} and C = {case.values['block']}, the largest array of the program has {difference.got} numbers; "
        f"{difference.expected} are allowed, and all scores are T · T = {T * T:,}"
    )


def work(case: Case, difference: Difference) -> str:
    return f"the program executes {difference.got} scalar operations; {difference.expected} are allowed"


PROBLEM = Problem(
    title="Flash attention",
    builds_on=(2, 18),
    entries=(Entry(ATTENTION, ("q", "k", "v", "block")),),
    cases={
        "cases": Cases(normal, {"T": (12,), "K": (5,), "C": (3,)}, draws=1),
        "ragged": Cases(normal, {"T": (11, 7), "K": (3,), "C": (4, 5)}, draws=1),
        "short": Cases(normal, {"T": (1, 5, 6, 4), "K": (3,), "C": (8, 7)}, draws=2),
        "overflow": Cases(large, {"T": (12,), "K": (5,), "C": (3,)}, draws=1),  # the program of "cases"
        "large": Cases(normal, {"T": (330, 325, 341), "K": (8,), "C": (32,)}, draws=1),
    },
    checks=(
        output(ATTENTION, points=2),
        Check("gradient", 2, "values", GRADIENT, "gradient"),
        Check("block does not divide T", 1, "values", GRADIENT, "output", "ragged"),
        Check("block does not divide T, gradient", 1, "values", GRADIENT, "gradient", "ragged"),
        output(ATTENTION, points=1, name="block larger than T", cases="short"),
        output(ATTENTION, points=1, name="large scores stay finite", cases="overflow", tolerance=SATURATED),
        Check(
            "no array of all scores", 2, "values", GRADIENT, "program.largest_array", "large",
            "at_most", ARRAYS, in_words=array,
            advice="The program of the output and the gradients holds an array that is much larger than q. Keep the scores "
            "of one block of queries and one block of keys at a time, and compute them again in the backward pass.",
        ),
        memory(
            "block", points=1, probe="values", options=GRADIENT,
            advice="The program of the output and the gradients holds many blocks of scores at once. Use the loops of JAX: XLA "
            "keeps many turns of a Python loop in memory together.",
        ),
        Check(
            "later blocks skipped", 1, "values", {"entry": ATTENTION}, "program.work", "large", "at_most", FORWARD,
            in_words=work,
            advice="The forward pass computes the scores of blocks in which every key is hidden. For queries of block i, end "
            "the loop over the keys with block i.",
        ),
        Check(
            "later blocks skipped in the backward pass", 1, "values", GRADIENT, "program.work",
            "large", "at_most", BACKWARD, in_words=work,
            advice="The backward pass computes the scores of blocks in which every key is hidden. For keys of block j, begin "
            "the loop over the queries with block j.",
        ),
    ),
)  # fmt: skip
