"""Problem 25: save a model and its optimizer, and restore both."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Difference, Entry, Problem


def widths(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of the grader's small model, and a second width that does not fit its checkpoint."""
    token_ids = rng.integers(0, sizes["V"], (3, 5)).astype("int32")
    return {
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
        "other_d_ff": sizes["F"] + 1,
        "token_ids": token_ids,
    }


OTHERS = {"d_ff": "is of another width", "model": "has one matrix transposed", "optimizer": "has one moment transposed"}


def accepting(case: Case, wrong: Difference) -> str:
    other = OTHERS[wrong.path.removeprefix("raises.")]
    return f"`restore` returns a result although the pair from `make` {other}; expected an exception"


RESTORED: Any = {"options": {"make_runs": True}, "saved_by": "saving"}

PROBLEM = Problem(
    title="Checkpoint and restore",
    minutes=40,
    builds_on=(8,),
    entries=(
        Entry("save", ("path", "model", "optimizer")),
        Entry("restore", ("path", "make"), returns=("model", "optimizer")),
    ),
    # A width of 1, because NumPy and JAX stretch an axis of length 1 to any other without an error.
    cases={"cases": Cases(widths, {"V": (7,), "D": (11, 6), "F": (1,)}, draws=1, covers=("coprime", "one"))},
    # A restore copies numbers, so every comparison is exact.
    checks=(
        exact("model restored", 2, "restored", "model", **RESTORED),
        exact("optimizer restored", 2, "restored", "optimizer", **RESTORED),
        exact("loss after the next update", 1, "restored", "next_loss", **RESTORED),
        exact(
            "make never run for real", 1, "restored", "model", options={"make_runs": False}, saved_by="saving",
            advice="`make` ran for real: it drew a whole set of parameters, which the restore then overwrote. "
            "`nnx.eval_shape(make)` gives their shapes without drawing any.",
        ),
        exact(
            "another width refused", 1, "refused", "raises", saved_by="saving", in_words=accepting,
            advice="Restore with `StandardCheckpointer`, which compares the shapes with those of its target. The "
            "target is the abstract state from `nnx.eval_shape(make)`.",
        ),
    ),
    timeout=60.0,
    without={"vocabulary": "a checkpoint copies an array of any length in the same way, and longer ones take seconds"},
)  # fmt: skip
