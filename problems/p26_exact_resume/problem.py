"""Problem 26: stop a run and resume it in a new process, bit for bit."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import ADAM, Case, Cases, Difference, Entry, Problem


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """12 rows for a small model, in batches of 3 or 4, so that the resumed run crosses the end of an epoch."""
    return {
        "rows": rng.integers(0, sizes["V"], (12, 5)).astype("int32"),
        "batch_size": sizes["B"],
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "d_ff": 5,
    }


WHAT = {
    "batches": "entries of the batches",
    "noise": "random numbers",
    "losses": "losses",
    "model": "numbers of the model",
    "optimizer": "numbers of the optimizer",
}


def differing(case: Case, wrong: Difference) -> str:
    return f"{wrong.got} {WHAT[wrong.path.removeprefix('differing.')]} differ after the resume"


PROBLEM = Problem(
    title="Exact resume",
    builds_on=(16, 25),
    entries=(
        Entry("save", ("path", "model", "optimizer", "rngs", "loader")),
        Entry("resume", ("path", "make", "make_loader")),
    ),
    cases={"cases": Cases(run, {"V": (7,), "D": (4, 6), "B": (3, 4)}, draws=1)},
    checks=(
        exact("same batches", 2, "resumed", "differing.batches", in_words=differing),
        exact("same random numbers", 2, "resumed", "differing.noise", in_words=differing),
        exact("same losses, bit for bit", 1, "resumed", "differing.losses", in_words=differing),
        exact("same model, bit for bit", 1, "resumed", "differing.model", in_words=differing),
        exact("same optimizer, bit for bit", 1, "resumed", "differing.optimizer", in_words=differing),
        # The checks above compare the two processes of one submission. This one compares with the reference: it fails if
        # both processes start the run again in the same way.
        exact("losses of the reference's run", 1, "resumed", "losses", tolerance=ADAM),
    ),
    timeout=90.0,
)  # fmt: skip
