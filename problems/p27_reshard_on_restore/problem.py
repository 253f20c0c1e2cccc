"""Problem 27: saved on 4 x 2 devices, restored on 2 x 2 and on one."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES
from grader.problem import EXACT, Cases, Check, Entry, Problem


def widths(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"vocab_size": sizes["V"], "d_model": sizes["D"], "d_ff": sizes["F"]}


def look(name: str, points: int, leaves: str, **more: Any) -> Check:
    # Restoring copies numbers: not even the last bit may differ.
    return Check(name, points, "restored", leaves=leaves, tolerance=EXACT, **more)


PROBLEM = Problem(
    title="Restore onto another mesh",
    builds_on=(21, 25),
    entries=(Entry("save", ("path", "model", "optimizer")), Entry("restore_on", ("path", "make", "mesh"))),
    cases={"cases": Cases(widths, {"V": (11, 9), "D": (8, 12), "F": (10, 6)}, draws=1)},
    checks=(
        look("model comes back", 2, "values.model"),
        look("optimizer comes back", 2, "values.optimizer"),
        look("model placed on the new mesh", 2, "placed.model", words=PLACES),
        look("optimizer placed on the new mesh", 1, "placed.optimizer", words=PLACES),
        look("bytes on each device", 1, "bytes_on_device"),
        look(
            "no copy made first", 1, "real_calls_of_make",
            advice="`make` was run for real: it drew a whole set of parameters only for them to be overwritten. "
            "`nnx.eval_shape(make)` gives their shapes without any.",
        ),
    ),
    devices=8,
    timeout=90.0,
)  # fmt: skip
