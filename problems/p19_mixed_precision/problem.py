"""Problem 19: which arithmetic may be rough."""

from collections.abc import Mapping
from typing import Any

from grader.checks import parameters
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance

MODEL = "MixedLM"

# bfloat16 keeps 8 bits, 0.4 %, and a number passes through about ten roundings. Where such errors cancel or add up depends on
# how sums are grouped, so values are compared roughly: correct programs differ by up to 3 %. The dtypes, which are the point
# here, are compared exactly.
BFLOAT16 = Tolerance(rtol=0.08, atol=0.08, room=2)


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, T = sizes["V"], sizes["T"]
    token_ids = rng.integers(0, V - 1, T).astype("int32")
    token_ids[-1] = V - 1
    return {"vocab_size": V, "d_model": sizes["D"], "d_ff": sizes["F"], "token_ids": token_ids, "pad_id": V - 1}


def look(name: str, points: int, leaves: str, tolerance: Tolerance = EXACT, **more: Any) -> Check:
    return Check(name, points, "precision", leaves=leaves, tolerance=tolerance, **more)


PROBLEM = Problem(
    title="Mixed precision",
    builds_on=(2, 5, 7),
    entries=(
        Entry(MODEL, ("token_ids",), construct=("vocab_size", "d_model", "d_ff")),
        Entry("mixed_loss", ("model", "token_ids", "pad_id")),
    ),
    cases={"cases": Cases(story, {"T": (6, 7), "V": (9, 11), "D": (8,), "F": (12,)}, draws=2)},
    checks=(
        parameters(MODEL, points=1),
        look("logits", 1, "logits", BFLOAT16),
        look("loss", 1, "loss", BFLOAT16),
        look("gradient", 1, "gradient", BFLOAT16),
        look(
            "products in bfloat16", 2, "products_in_float32", compare="at_most",
            advice="So many matrix products have an operand that is not bfloat16. Cast both before you multiply.",
        ),
        look(
            "sums and exponentials in float32", 2, "rough",
            advice="So many exponentials, logarithms, roots or sums work on bfloat16. Cast to float32 before them.",
        ),
    ),
)  # fmt: skip
