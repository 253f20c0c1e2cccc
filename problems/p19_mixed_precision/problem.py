"""Problem 19: bfloat16 products, float32 sums."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

MODEL = "MixedLM"

# bfloat16 has 8 bits of precision, 0.4 %, and a number is rounded about ten times. Whether these errors cancel or add
# up depends on how sums are grouped: correct programs differ by up to 3 %. So values get a wide tolerance. The dtypes,
# which this problem is about, are compared exactly.
BFLOAT16 = Tolerance(rtol=0.08, atol=0.08, room=2)

# Of 350,000 logits, the worst is further off than of 80.
OF_MANY = Tolerance(rtol=0.12, atol=0.12, room=2)


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, T = sizes["V"], sizes["T"]
    token_ids = rng.integers(0, V - 1, T).astype("int32")
    token_ids[-1] = V - 1
    return {"vocab_size": V, "d_model": sizes["D"], "d_ff": sizes["F"], "token_ids": token_ids, "pad_id": V - 1}


def padding(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of one token, padded: nothing to predict."""
    values = story(sizes, rng)
    values["token_ids"][1:] = values["pad_id"]
    return values


PROBLEM = Problem(
    title="Mixed precision",
    minutes=80,
    builds_on=(2, 5, 7),
    entries=(
        Entry(MODEL, ("token_ids",), construct=("vocab_size", "d_model", "d_ff")),
        Entry("mixed_loss", ("model", "token_ids", "pad_id")),
    ),
    cases={
        "cases": Cases(story, {"T": (6, 7), "V": (9, 11), "D": (16, 20), "F": (24, 28)}, draws=2),
        "large": Cases(story, {"T": (7,), "V": (50257,), "D": (16,), "F": (25,)}, draws=1,
            covers=("vocabulary", "coprime")),
        "empty": Cases(padding, {"T": (6,), "V": (9,), "D": (16,), "F": (24,)}, draws=1),
    },
    without={
        "one": "a text of one token has nothing to predict, and XLA for CPUs cannot multiply one row in the way that "
        "`jax.nn.dot_product_attention` asks for"
    },
    checks=(
        parameters(MODEL, points=1),
        Check("logits", 1, "precision", leaves="logits", tolerance=BFLOAT16),
        Check("loss", 1, "precision", leaves="loss", tolerance=BFLOAT16),
        Check("loss of a story with no target", 1, "precision", leaves="loss", cases="empty", tolerance=BFLOAT16),
        # The rows of the embedding are then as large as those of a vocabulary of eight.
        Check("logits of a large vocabulary", 1, "precision", {"rows": 79.0}, "logits", "large", tolerance=OF_MANY),
        Check("gradient", 1, "slope", leaves="gradient", tolerance=BFLOAT16),
        exact(
            "products in bfloat16", 2, "precision", "program.products_not_in_bfloat16", compare="at_most",
            values_tolerance=BFLOAT16,
            advice="The value is the number of these matrix products that have an operand which is not bfloat16. The "
            "model runs twice: for the logits, and for the loss. Cast both operands before you multiply.",
        ),
        exact(
            "sums and exponentials in float32", 2, "precision", "program.in_bfloat16", values_tolerance=BFLOAT16,
            advice="The value is the number of exponentials, logarithms, roots or sums that work on bfloat16; for "
            "`logits`, of head products that return bfloat16; for `loss`, of roundings to bfloat16 between the head "
            "and the loss. The model runs twice: for the logits, and for the loss. Cast the input to float32, or ask "
            "the product for float32, and leave what follows in float32.",
        ),
    ),
)  # fmt: skip
