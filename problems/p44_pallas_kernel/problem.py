"""Problem 44: RMSNorm as a Pallas kernel."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

NORM = "rms_norm"
GRADIENT = {"entry": NORM, "wrt": ["x", "weight"]}


def rows(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows of very different sizes, so that epsilon matters in some of them."""
    T, D = sizes["T"], sizes["D"]
    x = rng.standard_normal((T, D)) * 10.0 ** rng.integers(-2, 2, (T, 1))
    return {
        "x": x.astype("float32"),
        "weight": (1 + rng.standard_normal(D) / 2).astype("float32"),
        "epsilon": sizes["thousandths"] / 1000,
        "block": sizes["C"],
        "d_out": rng.standard_normal((T, D)).astype("float32"),
    }


# Twice as many numbers as in a block of the reference. Arithmetic on all rows at once takes seven times as many or
# more.
BLOCK = Tolerance(rtol=1.0, atol=0.0, room=3)


def largest(case: Case, difference: Difference) -> str:
    T, D = case.values["x"].shape
    where = "outside of kernels" if difference.path.endswith("outside") else "in a kernel"
    return (
        f"with T = {T}, D = {D} and C = {case.values['block']}, there is arithmetic {where} on an array of "
        f"{difference.got} numbers; {difference.expected} are allowed"
    )


def on_a_tpu(allowed: str, case: Case, difference: Difference) -> str:
    """What is wrong with a program for a TPU, outside of whose kernels some arithmetic is allowed, or none."""
    name = difference.path.removeprefix("tpu.")
    if name == "has_a_kernel":
        return "the program for a TPU has no kernel that multiplies"
    if name == "numbers_outside":
        return f"the program for a TPU has arithmetic outside of kernels, on {difference.got} numbers {allowed}"
    if name == "too_large":
        return f"the program for a TPU computes with an array of {difference.got} numbers, more than two blocks"
    what = "give" if name == "output" else f"give the gradient {name.partition('.')[2]}:"
    return f"the kernels for a TPU {what} {difference.got} at {list(difference.index)}, expected {difference.expected}"


PROBLEM = Problem(
    title="A Pallas kernel",
    minutes=140,
    builds_on=(4, 43),
    entries=(Entry(NORM, ("x", "weight", "epsilon", "block")),),
    cases={
        "cases": Cases(rows, {"T": (12,), "D": (5, 7), "C": (4, 3), "thousandths": (1,)}, draws=1),
        # Two epsilons for the same shapes: a kernel that is built once for each shape keeps the first.
        "ragged": Cases(rows, {"T": (11,), "D": (5,), "C": (4,), "thousandths": (3, 30)}, draws=2, covers=("coprime",)),
        "short": Cases(rows, {"T": (1, 3, 2), "D": (5,), "C": (8, 4), "thousandths": (1, 3)}, draws=2, covers=("one",)),
        "large": Cases(rows, {"T": (123, 115), "D": (12,), "C": (16,), "thousandths": (2,)}, draws=1),
        "tpu": Cases(rows, {"T": (43, 45), "D": (12,), "C": (8,), "thousandths": (4,)}, draws=1),
    },
    checks=(
        output(NORM, points=2),
        Check("gradient", 2, "values", GRADIENT, "gradient"),
        Check("last block hangs over", 1, "values", GRADIENT, "output", "ragged"),
        Check("last block hangs over, gradient", 2, "values", GRADIENT, "gradient", "ragged"),
        output(NORM, points=1, name="block larger than T", cases="short"),
        Check(
            "one block at a time", 2, "passes", leaves="program.largest_operand", cases="large", compare="at_most",
            tolerance=BLOCK, in_words=largest,
            advice="Whole arrays are multiplied, divided or summed outside of a kernel, or the kernel has all rows as "
            "one block. Leave everything to the kernels, forward and backward, and let a `pl.BlockSpec` give them C "
            "rows at a time.",
        ),
        Check(
            "a kernel for an accelerator", 1, "for_tpu", leaves="tpu", cases="tpu", read=True,
            in_words=partial(on_a_tpu, "in all; expected none"),
            advice="JAX lowered the same code for a TPU. Pallas kernels must do all arithmetic, and give the output.",
        ),
        Check(
            "backward pass for an accelerator", 1, "backward_for_tpu", leaves="tpu", cases="tpu", read=True,
            in_words=partial(on_a_tpu, "more than a sum of one row for each step takes"),
            advice="JAX lowered the gradients of the same code for a TPU. Pallas kernels must do all arithmetic, but "
            "for a sum of one row (D,) for each step.",
        ),
    ),
)  # fmt: skip
