"""Problem 27: save on 4 x 2 devices, restore on 3 x 2 and on 1 x 1."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, exact
from grader.problem import Cases, Entry, Problem


def widths(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of the grader's small model."""
    return {"vocab_size": sizes["V"], "d_model": sizes["D"], "d_ff": sizes["F"]}


RESTORED: Any = {"options": {"large": False}, "saved_by": "saving", "read": True}
PLACED = {**PLACES, -2: "on other devices"}
HELD = {0: "in parts", 1: "whole", 2: "not read by Orbax to devices of the mesh"}

PROBLEM = Problem(
    title="Restore onto another mesh",
    minutes=60,
    builds_on=(21, 25),
    entries=(
        Entry("save", ("path", "model", "optimizer")),
        Entry("restore_on", ("path", "make", "mesh"), returns=("model", "optimizer")),
    ),
    # A width of 1 is the smallest axis that no mesh of the page divides.
    cases={"cases": Cases(widths, {"V": (11, 7), "D": (1, 8), "F": (10, 14)}, draws=1, covers=("one",))},
    # A restore copies numbers, so every comparison is exact.
    checks=(
        exact("model restored", 2, "restored", "values.model", **RESTORED),
        exact("optimizer restored", 2, "restored", "values.optimizer", **RESTORED),
        exact("model sharded on the new mesh", 2, "restored", "placed.model", **RESTORED, words=PLACED),
        exact("optimizer sharded on the new mesh", 1, "restored", "placed.optimizer", **RESTORED, words=PLACED),
        exact("bytes per device", 1, "restored", "bytes_on_device", **RESTORED),
        exact(
            "no array whole on one "
            "device", 1, "restored", "in_parts", options={"large": True}, saved_by="saving", read=True,
            words=HELD,
            advice="A whole model fits on no device of a mesh that it was sharded for. `nnx.eval_shape(make)` gives "
            "the shapes without drawing a number, and a target with shardings lets Orbax read each part to its device.",
        ),
    ),
    devices=8,
    timeout=90.0,
    without={"vocabulary": "a checkpoint copies an array of any length in the same way, and longer ones take seconds"},
)  # fmt: skip
