"""Problem 74: the gated delta rule in chunks."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

RULE = "delta_rule"
ARRAYS = ["q", "k", "v", "beta", "log_alpha", "state"]


def text(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Queries, keys and values of any length, strengths, decays, and what the state already holds.

    The squares of a key sum to 2 or so. With longer ones, a state that is written without normalizing them explodes,
    and two such programs differ by rounding.
    """
    T, K, M = (sizes[name] for name in ("T", "K", "M"))
    values = {
        "q": 1.4 * rng.standard_normal((T, K)) / K**0.5,
        "k": 1.4 * rng.standard_normal((T, K)) / K**0.5,
        "v": rng.standard_normal((T, M)),
        "beta": rng.uniform(0.3, 0.9, T),
        "log_alpha": -rng.uniform(0.1, 0.7, T),
        "state": rng.standard_normal((K, M)),
    }
    return {**{name: value.astype("float32") for name, value in values.items()}, "chunk": sizes["C"]}


def forgetful(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A few decays so strong that their products round to 0, and their reciprocals to infinity. One key and one query
    are 0, and so is one beta.

    The first chunk ends with the strongest decay. Sums of logarithms that run on behind it lose their digits, and those
    that begin again do not.
    """
    values = text(sizes, rng)
    values["log_alpha"][1::3] = -rng.uniform(40, 60, len(values["log_alpha"][1::3]))
    values["log_alpha"][3] = -120
    values["log_alpha"][sizes["C"] - 1] = -1e7
    values["k"][2] = values["q"][6] = 0
    values["beta"][5] = 0
    return values


def repeated(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One key again and again, written with full strength and never forgotten."""
    values = text(sizes, rng)
    values["k"][:] = 1.2 * values["k"][0] / (values["k"][0] @ values["k"][0]) ** 0.5
    values["beta"][:], values["log_alpha"][:] = 1, 0
    return values


OPTIONS = {"entry": RULE, "wrt": ARRAYS}
# Within a chunk, the sum of the logarithms reaches 300, where float32 numbers are 3e-5 apart, and so are the
# exponentials of their differences.
STRONG = Tolerance(rtol=1e-3, atol=1e-3)
# A program that solves the system of each chunk when its turn comes takes three times as many operations as the
# reference, and position by position, there are twelve times as many.
ROUNDS = Tolerance(rtol=5.0, atol=0.0, room=2)
# The whole text as one chunk takes seven times the work of the reference, and matrices (K, K) at each position take
# nineteen times as much.
WORK = Tolerance(rtol=2.0, atol=0.0, room=3)
# One position filled up to a chunk takes 600 times the work.
STEP = Tolerance(rtol=4.0, atol=0.0, room=3)


def rounds(case: Case, difference: Difference) -> str:
    return (
        f"for {len(case.values['q'])} positions in chunks of {case.values['chunk']}, the program executes "
        f"{difference.got} operations one after another; {difference.expected} are allowed"
    )


def work(case: Case, difference: Difference) -> str:
    return (
        f"for T = {len(case.values['q'])} and chunks of {case.values['chunk']}, the program executes {difference.got} "
        f"scalar operations; {difference.expected} are allowed"
    )


PROBLEM = Problem(
    title="The gated delta rule",
    minutes=110,
    builds_on=(2, 17),
    entries=(Entry(RULE, (*ARRAYS, "chunk"), returns=("out", "state")),),
    cases={
        "position": Cases(text, {"T": (1,), "K": (4,), "M": (4,), "C": (64,)}, draws=1, covers=("one",)),
        "chunk": Cases(text, {"T": (4,), "K": (3,), "M": (2,), "C": (4,)}, draws=1),
        "chunks": Cases(text, {"T": (6,), "K": (3,), "M": (2,), "C": (2,)}, draws=1),
        "remainder": Cases(text, {"T": (11,), "K": (3,), "M": (2,), "C": (5,)}, draws=1, covers=("coprime",)),
        "forgetful": Cases(forgetful, {"T": (13,), "K": (3,), "M": (2,), "C": (8,)}, draws=1),
        "repeated": Cases(repeated, {"T": (48,), "K": (3,), "M": (2,), "C": (48,)}, draws=1),
        "long": Cases(text, {"T": (250, 256, 243), "K": (24,), "M": (24,), "C": (16,)}, draws=1),
    },
    checks=(
        output(RULE, points=2, name="one position", cases="position"),
        *output_and_gradient(
            RULE, wrt=ARRAYS, points=(2, 1), names=("one chunk", "gradient of one chunk"), cases="chunk"
        ),
        *output_and_gradient(
            RULE, wrt=ARRAYS, points=(2, 1), names=("chunk after chunk", "gradient through chunks"), cases="chunks"
        ),
        output(RULE, points=1, name="a last chunk that is shorter", cases="remainder"),
        Check("strong decay stays finite", 1, "values", OPTIONS, cases="forgetful", tolerance=STRONG),
        Check(
            "one key again and again", 1, "values", {"entry": RULE}, "output", "repeated",
            advice="If short texts are right, this is rounding. Powers of a matrix whose rows are alike grow to many "
            "millions, and their sum is small. Solve the triangular system row by row, or by blocks.",
        ),
        Check(
            "whole arrays", 3, "values", {"entry": RULE}, "program.rounds", "long", "at_most", ROUNDS, in_words=rounds,
            advice="Only the state must pass from chunk to chunk. Write what the tokens of a chunk change as the "
            "solution of a triangular system, and solve it for all tokens at once.",
        ),
        Check(
            "work of chunks", 1, "values", {"entry": RULE}, "program.work", "long", "at_most", WORK, in_words=work,
            advice="Compare tokens within a chunk only, and keep the state's matrix out of everything that is done for "
            "each position.",
        ),
        Check(
            "work of one position", 1, "values", {"entry": RULE}, "program.work", "position", "at_most", STEP,
            in_words=work, advice="A text that is shorter than a chunk needs no padding: it is a shorter chunk.",
        ),
    ),
)  # fmt: skip
