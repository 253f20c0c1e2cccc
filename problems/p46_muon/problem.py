"""Problem 46: Muon for hidden kernels, another optimizer for the rest."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

STEPS = 4
LEAVES = ("embedding", "pos_embed", "ff1", "bias", "ff2", "proj", "conv", "head")
ENTRIES = {"orthogonalize": ("matrix", "steps"), "muon": ("learning_rate", "beta", "weight_decay", "rest")}


def matrices(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A matrix with singular values from 1 to 6 times a scale, which may be 0, and a power of ten."""
    A, B = sizes["A"], sizes["B"]
    smaller = min(A, B)
    left, right = (orthonormal(rng.standard_normal((size, smaller))) for size in (A, B))
    values = rng.uniform(1, 6, smaller) * sizes.get("scale", 1) * 10.0 ** sizes.get("exponent", 0)
    return {"matrix": ((left * values) @ right.T).astype("float32"), "steps": sizes["steps"]}


def orthonormal(matrix: Any) -> Any:
    """Orthonormal columns with the span of a matrix's columns, by Gram and Schmidt."""
    columns: list[Any] = []
    for column in matrix.T:
        for _ in range(2):
            column = column - sum((other * (other @ column) for other in columns), 0 * column)
        columns.append(column / (column @ column) ** 0.5)
    return sum(
        (column[:, None] * [number == place for place in range(len(columns))] for number, column in enumerate(columns)),
        0 * matrix,
    )


def gradients(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Gradients of a few steps for three kernels of one block, one of them square, a convolution with three axes, a
    bias, the embeddings and the head. Each step has another scale."""
    V, T, D, F = sizes["V"], sizes["T"], sizes["D"], sizes["F"]
    shapes = {"embedding": (V, D), "pos_embed": (T, D), "ff1": (D, F), "bias": (F,), "ff2": (F, D), "proj": (D, D),
              "conv": (2, D, F), "head": (D, V)}  # fmt: skip
    scale = 10.0 ** rng.uniform(-1, 1, STEPS)
    leaves = {
        name: (scale.reshape(STEPS, *[1] * len(shape)) * rng.standard_normal((STEPS, *shape))).astype("float32")
        for name, shape in shapes.items()
    }
    tenths = sizes["tenths"]
    return {**leaves, "learning_rate": tenths / 10, "beta": 1 - tenths / 5, "weight_decay": round(0.2 + tenths / 10, 1)}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of the gradients, which are many random numbers."""
    shapes = ", ".join(f"{key} {list(value.shape[1:])}" for key, value in values.items() if hasattr(value, "shape"))
    return {
        f"gradients of steps 0 to {STEPS - 1}": shapes,
        **{k: v for k, v in values.items() if not hasattr(v, "shape")},
    }


# Newton-Schulz multiplies a small singular value by up to 3.4 in each step, and its rounding error, too: by 480 in five
# steps. Correct programs differ by 1e-6 to 1e-5 here.
NEWTON = Tolerance(rtol=1e-4, atol=1e-4)
# Products may be grouped in other ways: a program that computes X Xᵀ twice in each step executes nearly twice as many
# operations. Products of the larger side take about 75 times as many here.
WORK = Tolerance(rtol=3.0, atol=0.0, room=3)
# Counters may differ, by 4 bytes each. Another array for each kernel is 1,024 bytes of about 18,400, and 256
# with 8 bits a number.
BYTES = Tolerance(rtol=0.005, atol=64, room=2)


def step_by_step(case: Case, difference: Difference) -> str:
    """The leaf and the step of an update."""
    kind, _, leaf = difference.path.partition(".")
    if kind not in ("first", "kernels", "others") or (kind != "first" and not difference.index):
        return ""
    step, at = (0, difference.index) if kind == "first" else (difference.index[0], difference.index[1:])
    return f"the update of `{leaf}{list(at)}` at step {step} is {difference.got}, expected {difference.expected}"


def bytes_in_words(case: Case, difference: Difference) -> str:
    return f"parameters and state take {difference.got} bytes; {difference.expected} are allowed"


def operations_in_words(case: Case, difference: Difference) -> str:
    shape = case.values["matrix"].shape
    if difference.path.endswith("linear_algebra"):
        return "the program decomposes a matrix or solves a system; use matrix products only"
    return (
        f"for a matrix of shape {shape}, the program executes {difference.got} scalar operations; "
        f"{difference.expected} are allowed"
    )


PROBLEM = Problem(
    title="Muon",
    minutes=90,
    builds_on=(9,),
    forbids=("optax.contrib", "optax.contrib.muon", "optax.contrib.scale_by_muon"),
    row_by_row={"updating": LEAVES},
    without={
        "steps": "`steps` are those of Newton and Schulz, of which five are taken; the update itself does not know its "
            "number",
        "vocabulary": "the tables and the head go to `rest`, whatever their size",
    },
    entries=tuple(Entry(name, arguments) for name, arguments in ENTRIES.items()),
    cases={
        "wide": Cases(matrices, {"A": (3,), "B": (5,), "steps": (1, 5)}, draws=2, covers=("coprime",)),
        "tall": Cases(matrices, {"A": (7,), "B": (4,), "steps": (5,)}, draws=1),
        "zeros": Cases(matrices, {"A": (3,), "B": (5,), "steps": (5,), "scale": (0,)}, draws=1),
        # The program of "zeros". The norm is near 1e-7, so a tenth of it is the 1e-8 that is added.
        "faint": Cases(matrices, {"A": (3,), "B": (5,), "steps": (5,), "exponent": (-8,)}, draws=1),
        "one row": Cases(matrices, {"A": (1,), "B": (6,), "steps": (2,)}, draws=1, covers=("one",)),
        "very tall": Cases(matrices, {"A": (96, 88), "B": (8, 7), "steps": (5,)}, draws=1),
        "steps": Cases(
            gradients, {"V": (11,), "T": (6,), "D": (8,), "F": (12,), "tenths": (1,)}, draws=2, show=shown,
            covers=("axes",)
        ),
        "other "
        "numbers": Cases(gradients, {"V": (11,), "T": (6,), "D": (8,), "F": (12,), "tenths": (2,)},
            draws=1, show=shown),
    },
    checks=(
        output("orthogonalize", points=2, name="wide matrix", cases="wide", tolerance=NEWTON),
        output("orthogonalize", points=1, name="tall matrix", cases="tall", tolerance=NEWTON),
        output("orthogonalize", points=1, name="matrix of zeros", cases="zeros", tolerance=NEWTON),
        output("orthogonalize", points=1, name="tiny matrix", cases="faint", tolerance=NEWTON),
        output("orthogonalize", points=1, name="matrix of one row", cases="one row", tolerance=NEWTON),
        Check(
            "work of a tall "
            "matrix", 1, "values", {"entry": "orthogonalize"}, "program.orthogonalizing", cases="very tall",
            compare="at_most", tolerance=WORK, values_tolerance=NEWTON, in_words=operations_in_words,
            advice="A matrix with more rows than columns must be transposed first, so that X Xᵀ has the smaller side.",
        ),
        Check("kernels: first "
            "update", 1, "updating", leaves="first", cases="steps", tolerance=NEWTON, in_words=step_by_step),
        Check("kernels: all "
            "updates", 2, "updating", leaves="kernels", cases="steps", tolerance=NEWTON, in_words=step_by_step),
        Check("all other leaves", 2, "updating", leaves="others", cases="steps", in_words=step_by_step),
        Check(
            "memory of the state", 1, "updating", leaves="program.carried_bytes", cases="steps", compare="at_most",
            tolerance=BYTES, values_tolerance=NEWTON, in_words=bytes_in_words,
            advice="The state holds more than one array for each kernel, arrays of `rest` for kernels, or momentum for "
            "other leaves. `optax.partition` gives each transformation its own leaves only.",
        ),
        Check("inside nnx.Optimizer", 1, "optimizing", leaves="parameters", cases="other numbers", tolerance=NEWTON),
    ),
)  # fmt: skip
