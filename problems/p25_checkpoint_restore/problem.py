"""Problem 25: a checkpoint that brings back model and optimizer, and nothing else."""

from collections.abc import Mapping
from typing import Any

from grader.problem import EXACT, Cases, Check, Entry, Problem


def widths(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sizes of the grader's small model, and one other width that does not fit the checkpoint."""
    token_ids = rng.integers(0, sizes["V"], (3, 5)).astype("int32")
    return {
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
        "other_d_model": sizes["D"] + 2,
        "token_ids": token_ids,
    }


def look(name: str, points: int, leaves: str, probe: str = "restored", **more: Any) -> Check:
    # Restoring copies numbers: not even the last bit may differ.
    return Check(name, points, probe, leaves=leaves, tolerance=EXACT, **more)


PROBLEM = Problem(
    title="Checkpoint and restore",
    builds_on=(8,),
    entries=(Entry("save", ("path", "model", "optimizer")), Entry("restore", ("path", "make"))),
    cases={"cases": Cases(widths, {"V": (7,), "D": (4, 6), "F": (5,)}, draws=1)},
    checks=(
        look("model comes back", 2, "model"),
        look("optimizer comes back", 2, "optimizer"),
        look("training goes on as before", 1, "next_loss"),
        look(
            "no second copy", 1, "real_calls_of_make",
            advice="`make` was run for real: it drew a whole set of parameters only for them to be overwritten. "
            "`nnx.eval_shape(make)` gives their shapes without any.",
        ),
        look(
            "another width is refused", 1, "raises", "refused", words={0: "a result", 1: "an exception"},
            advice="Restore into the abstract state that `nnx.eval_shape(make)` gives: Orbax then compares the shapes.",
        ),
    ),
    timeout=60.0,
)  # fmt: skip
