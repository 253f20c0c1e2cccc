"""Problem 28: the weights in the layout of Hugging Face's GPT-2."""

from collections.abc import Mapping
from typing import Any

from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, H = sizes["V"], sizes["H"]
    return {
        "vocab_size": V,
        "d_model": 2 * H,
        "num_heads": H,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "context": 7,
        "token_ids": rng.integers(0, V, 5).astype("int32"),
    }


def look(name: str, points: int, leaves: str, **more: Any) -> Check:
    return Check(name, points, "exported", leaves=leaves, **{"tolerance": EXACT, **more})


# A few layers in NumPy's float64 against a few in float32.
LOGITS = Tolerance(rtol=1e-4, atol=1e-4)

PROBLEM = Problem(
    title="Export to Hugging Face",
    builds_on=(6,),
    entries=(Entry("export_gpt2", ("model", "num_heads", "folder")),),
    cases={"cases": Cases(gpt, {"V": (11, 13), "H": (2, 3), "F": (7, 10), "L": (2, 1)}, draws=2)},
    checks=(
        # Exporting copies numbers: not even the last bit may differ.
        look("names, shapes and numbers", 4, "tensors"),
        look("sizes in config.json", 1, "config"),
        look(
            "architecture, activation, epsilon", 1, "settings", words={0: "not as the page says", 1: "as the page says"},
            advice="`config.json` must say so in words: without it, `transformers` assumes GPT-2's own GELU and epsilon.",
        ),
        look("metadata", 1, "metadata", words={0: "no `format: pt`", 1: "`format: pt`"}),
        look("equal logits", 2, "logits", tolerance=LOGITS),
    ),
)  # fmt: skip
