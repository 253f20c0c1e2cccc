"""Problem 26: stop a run and resume it in a new process, bit for bit."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Cases, Entry, Problem


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows for a small model, in four batches an epoch: the run stops within an epoch and resumes into the next."""
    return {
        "rows": rng.integers(0, sizes["V"], (4 * sizes["B"], 5)).astype("int32"),
        "batch_size": sizes["B"],
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "d_ff": 5,
    }


PROBLEM = Problem(
    title="Exact resume",
    minutes=65,
    builds_on=(16, 25),
    entries=(
        Entry("save", ("path", "model", "optimizer", "rngs", "loader")),
        Entry("resume", ("path", "make", "make_loader"), returns=("model", "optimizer", "rngs", "loader")),
    ),
    cases={"cases": Cases(run, {"V": (7,), "D": (11, 6), "B": (1, 3)}, draws=1, covers=("coprime", "one"))},
    # The steps are the grader's own, on the grader's own model, so every number equals the reference's, bit for bit.
    checks=(
        exact("same batches", 2, "resumed", "batches", saved_by="saving", read=True),
        exact("same random numbers", 2, "resumed", "noise", saved_by="saving", read=True),
        exact("same losses, bit for bit", 2, "resumed", "losses", saved_by="saving", read=True),
        exact("same model, bit for bit", 1, "resumed", "model", saved_by="saving", read=True),
        exact("same optimizer, bit for bit", 1, "resumed", "optimizer", saved_by="saving", read=True),
    ),
    timeout=90.0,
    without={"vocabulary": "a checkpoint copies an array of any length in the same way, and longer ones take seconds"},
)  # fmt: skip
