"""Problem 26: stop, start again in a new process, and not a bit is different."""

from collections.abc import Mapping
from typing import Any

from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows for a small model: 12 in batches of 3 or 4, so that a resumed run crosses the end of an epoch."""
    return {
        "rows": rng.integers(0, sizes["V"], (12, 5)).astype("int32"),
        "batch_size": sizes["B"],
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "d_ff": 5,
    }


def look(name: str, points: int, leaves: str, **more: Any) -> Check:
    return Check(name, points, "resumed", leaves=leaves, **{"tolerance": EXACT, **more})


# As in problem 08. This check only tells a run that goes on from one that starts anew in both processes alike.
ADAM = Tolerance(rtol=5e-4, atol=5e-4)

PROBLEM = Problem(
    title="Exact resume",
    builds_on=(16, 25),
    entries=(
        Entry("save", ("path", "model", "optimizer", "rngs", "loader")),
        Entry("resume", ("path", "make", "make_loader")),
    ),
    cases={"cases": Cases(run, {"V": (7,), "D": (4, 6), "B": (3, 4)}, draws=1)},
    checks=(
        look(
            "the same batches", 2, "differing.batches", advice="So many numbers of the batches that follow are others."
        ),
        look(
            "the same random numbers",
            2,
            "differing.noise",
            advice="So many random numbers of the steps that follow are others.",
        ),
        look("the same losses, bit for bit", 1, "differing.losses"),
        look("the same model, bit for bit", 1, "differing.model"),
        look("the same optimizer, bit for bit", 1, "differing.optimizer"),
        look("goes on where it was", 1, "losses", tolerance=ADAM),
    ),
    timeout=90.0,
)
