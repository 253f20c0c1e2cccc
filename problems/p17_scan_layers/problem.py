"""Problem 17: a stack of layers whose program does not grow with the depth."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grader.checks import ONE_COPY, exact, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

STACK = "LayerStack"

# The gradient passes through several blocks, and rounding errors grow a little in each.
DEEP = Tolerance(rtol=1e-4, atol=1e-4)


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    D = sizes["H"] * sizes["K"]
    x = rng.standard_normal((sizes["T"], D)).astype("float32")
    return {"d_model": D, "num_heads": sizes["H"], "d_ff": sizes["F"], "num_layers": sizes["L"], "x": x}


def small_program(name: str, points: int, wrt: str | None) -> Check:
    """A check of the operations in the program of the output, or of output and gradients, for which JAX may run other
    code."""
    return Check(
        name, points, "values", {"entry": STACK, "wrt": wrt}, "program.inlined_operations",
        cases="deep", compare="at_most", tolerance=ONE_COPY, values_tolerance=DEEP,
        advice="The program has so many operations because the blocks are unrolled. Run them with `jax.lax.scan`.",
    )  # fmt: skip


PROBLEM = Problem(
    title="Layers by scan",
    minutes=50,
    builds_on=(5,),
    entries=(Entry(STACK, ("x",), construct=("d_model", "num_heads", "d_ff", "num_layers")),),
    cases={
        "cases": Cases(activations, {"T": (4, 5), "H": (2, 3), "K": (3,), "F": (7, 8), "L": (3, 12, 7, 10, 5, 11, 9)},
            draws=2),
        "stacks": Cases(activations, {"T": (4,), "H": (2,), "K": (3,), "F": (7,), "L": (3, 12, 7, 10, 5, 11, 9)},
            draws=2),
        "one layer": Cases(activations, {"T": (3,), "H": (1,), "K": (2,), "F": (5,), "L": (1,)}, draws=1),
        "deep": Cases(
            activations, {"T": (5,), "H": (1,), "K": (7,), "F": (11,), "L": (24, 37, 61)},
            draws=1, covers=("layers", "coprime", "one"),
        ),
    },
    checks=(
        parameters(STACK, points=1),
        replace(parameters(STACK, points=1, cases="one layer"), name="parameters of one layer"),
        *output_and_gradient(STACK, wrt="parameters", points=(2, 1), tolerance=DEEP),
        exact(
            "layers initialized differently", 1, "stacking", "equal_layers", cases="stacks",
            advice="Two layers start with the same matrix. Give each layer its own key: "
                "`nnx.split_rngs(splits=num_layers)`.",
        ),
        small_program("program does not grow with depth", 2, None),
        small_program("program of the gradients does not grow with depth", 1, "parameters"),
    ),
)  # fmt: skip
