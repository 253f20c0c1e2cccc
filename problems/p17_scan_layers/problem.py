"""Problem 17: a stack of layers whose program does not grow with its depth."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output_and_gradient, parameters
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance

STACK = "LayerStack"

# The gradient has come through several blocks, where rounding errors grow a little with each.
DEEP = Tolerance(rtol=1e-4, atol=1e-4)


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    D = sizes["H"] * sizes["K"]
    x = rng.standard_normal((sizes["T"], D)).astype("float32")
    return {"d_model": D, "num_heads": sizes["H"], "d_ff": sizes["F"], "num_layers": sizes["L"], "x": x}


PROBLEM = Problem(
    title="Layers by scan",
    builds_on=(5,),
    entries=(Entry(STACK, ("x",), construct=("d_model", "num_heads", "d_ff", "num_layers")),),
    cases={"cases": Cases(activations, {"T": (4, 5), "H": (2, 3), "K": (3,), "F": (7,), "L": (2, 3)}, draws=2)},
    checks=(
        parameters(STACK, points=1),
        *output_and_gradient(STACK, wrt="parameters", points=(2, 1), tolerance=DEEP),
        Check(
            "layers start different", 1, "stacking", leaves="equal_layers", tolerance=EXACT,
            advice="Two layers drew the same initial values. Give each a key of its own: `nnx.split_rngs(splits=num_layers)`.",
        ),
        Check(
            "program does not grow with depth", 2, "stacking", leaves="growth", compare="at_most", tolerance=EXACT,
            advice="With four layers more the program has more lines: the blocks are unrolled. Run them with `jax.lax.scan`.",
        ),
    ),
)  # fmt: skip
