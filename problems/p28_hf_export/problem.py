"""Problem 28: export a GPT in the format of Hugging Face's GPT-2."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Cases, Entry, Problem, Tolerance


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a small GPT, and token ids (T,) to run it on."""
    V, H = sizes["V"], sizes["H"]
    return {
        "vocab_size": V,
        "d_model": H * int(rng.integers(4, 9)),  # no head is as wide as there are heads
        "num_heads": H,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "context": int(rng.integers(5, 30)),
        "token_ids": rng.integers(0, V, 5).astype("int32"),
    }


def deep(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A GPT with the layers and the vocabulary of GPT-2, and with heads of two numbers."""
    return {**gpt(sizes, rng), "d_model": 2 * sizes["H"]}


# The same few layers, computed in float64 from the exported files and in float32 from the model.
LOGITS = Tolerance(rtol=1e-4, atol=1e-4)

PROBLEM = Problem(
    title="Export to Hugging Face",
    minutes=100,
    builds_on=(6,),
    entries=(Entry("export_gpt2", ("model", "num_heads", "folder")),),
    cases={
        "cases": Cases(gpt, {"V": (11, 13), "H": (2, 3), "F": (7, 10), "L": (2, 1)}, draws=2),
        "deep": Cases(
            deep, {"V": (50_257,), "H": (1,), "F": (7,), "L": (13, 12)}, draws=1,
            covers=("layers", "vocabulary", "coprime", "one"),
        ),
    },
    checks=(
        # An export copies numbers, so the comparison is exact.
        exact("names, shapes and values", 4, "exported", "tensors", read=True),
        exact("twelve layers or more", 1, "exported", "tensors", cases="deep", read=True),
        exact(
            "sizes in config.json", 1, "exported", "config", read=True,
            advice="Each size is a whole number: 11, not 11.0. `transformers` refuses other numbers.",
        ),
        exact("sizes of a large model", 1, "exported", "config", cases="deep", read=True),
        exact(
            "settings in config.json", 1, "exported", "settings", read=True,
            words={0: "different from the page", 1: "as on the page"},
            advice="Write each setting into `config.json`: without it, `transformers` uses GPT-2's own GELU and "
                "epsilon.",
        ),
        exact("safetensors metadata", 1, "exported", "metadata", read=True, words={0: "no `format: "
            "pt`", 1: "`format: pt`"}),
        exact("same logits", 2, "exported", "logits", read=True, tolerance=LOGITS),
    ),
)  # fmt: skip
