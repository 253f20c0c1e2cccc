"""Problem 26: stop a run and resume it in a new process, bit for bit."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import ADAM, Cases, Entry, Problem


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows for a small model, in three batches an epoch: the run stops in the second epoch and resumes into the third."""
    return {
        "rows": rng.integers(0, sizes["V"], (3 * sizes["B"], 5)).astype("int32"),
        "batch_size": sizes["B"],
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "d_ff": 5,
    }


PROBLEM = Problem(
    title="Exact resume",
    builds_on=(16, 25),
    entries=(
        Entry("save", ("path", "model", "optimizer", "rngs", "loader")),
        Entry("resume", ("path", "make", "make_loader")),
    ),
    cases={"cases": Cases(run, {"V": (7,), "D": (4, 6), "B": (3, 4)}, draws=1)},
    checks=(
        exact(
            "same batches", 2, "resumed", "differing.batches",
            advice="The value is the number of batch entries that differ after the resume.",
        ),
        exact(
            "same random numbers", 2, "resumed", "differing.noise",
            advice="The value is the number of random numbers, of all streams, that differ after the resume.",
        ),
        exact("same losses, bit for bit", 1, "resumed", "differing.losses"),
        exact("same model, bit for bit", 1, "resumed", "differing.model"),
        exact("same optimizer, bit for bit", 1, "resumed", "differing.optimizer"),
        # The checks above compare the two processes of one submission. This one compares with the reference: it fails if
        # both processes start the run again in the same way.
        exact("losses of the reference's run", 1, "resumed", "losses", tolerance=ADAM),
    ),
    timeout=90.0,
)  # fmt: skip
