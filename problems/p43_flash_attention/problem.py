"""Problem 43: attention in blocks, in memory that grows with T instead of T times T."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from grader.checks import in_stage, memory, output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

ATTENTION = "flash_attention"
WRT = ["q", "k", "v"]
Make = Callable[[Mapping[str, int], Any], dict[str, Any]]
# JAX runs other code of the submission where a gradient is taken, so both programs are measured.
GRADIENT = {"entry": ATTENTION, "wrt": WRT}
ALONE = {"entry": ATTENTION}


def normal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Unit-normal queries, keys and values. The mask is causal, and the log-sum-exp is not returned."""
    values = {name: rng.standard_normal((sizes["T"], sizes["K"])).astype("float32") for name in WRT}
    return {**values, "block": sizes["C"]}


def unmasked(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The same without a mask."""
    return {**normal(sizes, rng), "causal": False}


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores whose exponential overflows in float32. They grow from block to block. The first row's only one, far below
    0, underflows."""
    values = normal(sizes, rng)
    growing = 10 * (1 + rng.random(sizes["T"]).cumsum().astype("float32"))[:, None]
    q = values["q"] * 10
    q[0] = -100 * values["k"][0]
    return {**values, "q": q, "k": values["k"] * growing}


def with_lse(make: Make) -> Make:
    """The cases of `make`, with the log-sum-exp returned."""
    return lambda sizes, rng: {"causal": True, **make(sizes, rng), "return_lse": True}


# Neighboring float32 numbers near 10,000 are 0.001 apart, so the scores themselves, and with them the weights, are that
# rough.
SATURATED = Tolerance(rtol=2e-3, atol=2e-3)
# Eight times as many numbers as the reference's largest array, which has about as many as q. The scores of one block of
# queries and all keys have four times as many, and all scores have forty times as many.
ARRAYS = Tolerance(rtol=7.0, atol=0.0, room=3)
# The scores of one block of queries and all keys take 2.3 times the memory of the reference, and all scores 20 times.
ROWS_OF_SCORES = Tolerance(rtol=2.0, atol=0.0, room=3)
# Computing every block takes 1.8 times the products of the causal forward pass, and computing both answers without a
# mask, to choose one, twice the products. Correct programs differ in how they mask.
FORWARD = Tolerance(rtol=0.45, atol=0.0, room=1.7)
# A pair of blocks takes two products forward and five backward, or seven if the gradients of the queries and those of
# the keys are computed in two loops: 9 / 7 of the reference's work. Computing every block backward takes 1.6 times the
# work.
BACKWARD = Tolerance(rtol=0.45, atol=0.0, room=1.25)


def check_of_work(name: str, options: Mapping[str, Any], cases: str, tolerance: Tolerance, advice: str) -> Check:
    """A check of the operations that the program of the output, or of the output and the gradients, executes."""
    return Check(name, 1, "values", options, "program.work", cases, "at_most", tolerance, in_words=work, advice=advice)


def check_of_arrays(name: str, options: Mapping[str, Any], cases: str, advice: str) -> Check:
    """A check of the largest array in the program of the output, or of the output and the gradients."""
    return Check(
        name, 1, "values", options, "program.largest_array", cases, "at_most", ARRAYS, in_words=array, advice=advice
    )


def memory_alone(what: str, cases: str) -> Check:
    """A check of the temporary memory in the program of the output alone."""
    check = memory(what, points=1, probe="values", options=ALONE, advice=MANY_ALONE, cases=cases)
    return replace(check, tolerance=ROWS_OF_SCORES)


def array(case: Case, difference: Difference) -> str:
    T = len(case.values["q"])
    return (
        f"with T = {T} and C = {case.values['block']}, the largest array of the program has {difference.got} numbers; "
        f"{difference.expected} are allowed, and all scores are T · T = {T * T}"
    )


def work(case: Case, difference: Difference) -> str:
    return f"the program executes {difference.got} scalar operations; {difference.expected} are allowed"


ONE_BLOCK = "Keep the scores of one block of queries and one block of keys at a time"
HOLDS = (
    f"The program of the output and the gradients holds an array that is much larger than q. {ONE_BLOCK}, and compute "
    "them again in the backward pass."
)
HOLDS_ALONE = f"The program of the output alone holds an array that is much larger than q. {ONE_BLOCK}."
LOOPS = (
    "holds many blocks of scores at once. Use the loops of JAX: XLA keeps many turns of a Python loop in memory "
    "together."
)
MANY = f"The program of the output and the gradients {LOOPS}"
MANY_ALONE = f"The program of the output alone {LOOPS}"
TWICE = (
    "Without a mask, the program does more than compute each pair of blocks once. `causal` is a Python bool: use `if`."
)

PROBLEM = Problem(
    title="Flash attention",
    minutes=160,
    builds_on=(2, 18),
    entries=(Entry(ATTENTION, ("q", "k", "v", "block", "causal", "return_lse")),),
    cases={
        "cases": Cases(normal, {"T": (12,), "K": (5,), "C": (3,)}, draws=1),
        "ragged": Cases(normal, {"T": (11, 7), "K": (3,), "C": (4, 5)}, draws=1, covers=("coprime",)),
        "short": Cases(normal, {"T": (1, 5, 6, 4), "K": (3,), "C": (8, 7)}, draws=2, covers=("one",)),
        "single": Cases(normal, {"T": (4, 5), "K": (1,), "C": (1,)}, draws=1, covers=("one",)),
        "overflow": Cases(large, {"T": (12,), "K": (5,), "C": (3,)}, draws=1),  # the program of "cases"
        "lse": Cases(with_lse(normal), {"T": (11, 7), "K": (3,), "C": (4, 5)}, draws=1),
        "lse, overflow": Cases(with_lse(large), {"T": (11,), "K": (3,), "C": (4,)}, draws=1),  # the program of "lse"
        "unmasked": Cases(unmasked, {"T": (12,), "K": (5,), "C": (3,)}, draws=1),
        "unmasked, ragged": Cases(with_lse(unmasked), {"T": (11, 7, 6), "K": (3,), "C": (4, 5, 8)}, draws=2),
        # Just below a multiple of C, or all scores without the padding of blocks would cost little more than half of
        # the blocks.
        "large": Cases(normal, {"T": (350, 345, 349), "K": (8,), "C": (32,)}, draws=1),
        "unmasked, large": Cases(with_lse(unmasked), {"T": (350, 345, 349), "K": (8,), "C": (32,)}, draws=1),
    },
    checks=(
        *in_stage(
            "the output",
            output(ATTENTION, points=2),
            Check("block does not divide T", 1, "values", GRADIENT, "output", "ragged"),
            output(ATTENTION, points=1, name="block larger than T", cases="short"),
            output(ATTENTION, points=1, name="blocks of one row", cases="single"),
            output(ATTENTION, points=1, name="large scores stay finite", cases="overflow", tolerance=SATURATED),
            check_of_arrays("no array of all scores without gradients", ALONE, "large", HOLDS_ALONE),
            memory_alone("block without gradients", "large"),
            check_of_work(
                "later blocks skipped", ALONE, "large", FORWARD,
                "The forward pass computes the scores of blocks in which every key is hidden. For queries of block i, "
                "end the loop over the keys with block i.",
            ),
        ),
        *in_stage(
            "its gradients",
            Check("gradient", 2, "values", GRADIENT, "gradient"),
            Check("block does not divide T, gradient", 1, "values", GRADIENT, "gradient", "ragged"),
            check_of_arrays("no array of all scores", GRADIENT, "large", HOLDS),
            memory("block", points=1, probe="values", options=GRADIENT, advice=MANY),
            check_of_work(
                "later blocks skipped in the backward pass", GRADIENT, "large", BACKWARD,
                "The backward pass computes the scores of blocks in which every key is hidden. For keys of block j, "
                "begin the loop over the queries with block j.",
            ),
        ),
        *in_stage(
            "the log-sum-exp, and no mask",
            Check("log-sum-exp", 1, "values", GRADIENT, "output", "lse"),
            Check("gradient of the log-sum-exp", 1, "values", GRADIENT, "gradient", "lse"),
            output(ATTENTION, points=1, name="log-sum-exp of large scores", cases="lse, overflow", tolerance=SATURATED),
            Check("without a mask", 1, "values", GRADIENT, "output", "unmasked"),
            Check("without a mask, gradient", 1, "values", GRADIENT, "gradient", "unmasked"),
            Check(
                "padding without a mask", 1, "values", GRADIENT, "output", "unmasked, ragged",
                advice="Without the causal mask, nothing hides the zeros that fill the last block of keys. Hide the "
                    "keys from T on.",
            ),
            Check("padding without a mask, gradient", 1, "values", GRADIENT, "gradient", "unmasked, ragged"),
            check_of_arrays("no array of all scores, without a mask", GRADIENT, "unmasked, large", HOLDS),
            check_of_arrays(
                "no array of all scores without gradients or a mask", ALONE, "unmasked, large", HOLDS_ALONE
            ),
            memory(
                "block, without a mask", points=1, probe="values", options=GRADIENT, advice=MANY,
                cases="unmasked, large",
            ),
            memory_alone("block without gradients or a mask", "unmasked, large"),
            check_of_work("each block once", ALONE, "unmasked, large", FORWARD, TWICE),
            check_of_work("each block once in the backward pass", GRADIENT, "unmasked, large", BACKWARD, TWICE),
        ),
    ),
)  # fmt: skip
