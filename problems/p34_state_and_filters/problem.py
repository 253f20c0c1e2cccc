"""Problem 34: state and filters."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES, exact
from grader.problem import ADAM, Cases, Check, Entry, Problem


def stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Eight batches (B, D) to train on, and the size of the model."""
    return {
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
        "learning_rate": 0.05,
        "batches": rng.standard_normal((8, sizes["B"], sizes["D"])).astype("float32"),
    }


PROBLEM = Problem(
    title="State and filters",
    minutes=45,
    entries=(
        Entry("average", ("a", "b")),
        Entry("copy_part", ("model", "source", "name")),
        Entry("snapshot", ("model", "optimizer")),
        Entry("restore", ("model", "optimizer", "saved")),
    ),
    cases={"cases": Cases(stories, {"D": (3, 4), "F": (5, 7), "B": (1, 4)}, draws=2, covers=("coprime", "one"))},
    checks=(
        Check("average", 2, "averaging", leaves="average"),
        Check(
            "average shares nothing", 1, "averaging", leaves="afterwards",
            advice="The new model was changed in place, and a or b changed with it. They must hold different "
                "variables.",
        ),
        Check("copied part", 1, "copying", leaves="model"),
        Check("another copied part", 1, "copying", leaves="model_with_other_trunk"),
        Check(
            "part copied in place", 1, "copying", leaves="held",
            advice="`held` is read from the variables that the model's part had before the call. They must get the new "
            "numbers: `nnx.update`.",
        ),
        exact(
            "source shares nothing", 1, "copying", "source_changed", words=YES,
            advice="The model was changed after the call, and the source changed with it, or the call changed the "
                "source.",
        ),
        Check("model restored", 1, "restoring", leaves="restored.model", tolerance=ADAM),
        Check(
            "optimizer restored", 1, "restoring", leaves="restored.optimizer", tolerance=ADAM,
            advice="`held_before` is read from the variables that the optimizer had before the call. They must get the "
            "saved numbers: `nnx.update`.",
        ),
        # The two checks before this one allow for rounding in the training before the snapshot.
        exact(
            "restored bit for bit", 1, "restoring", "changed", words={0: "as at the snapshot", 1: "changed"},
            advice="Each number must be the one that was there at the snapshot, with all its digits: keep each dtype.",
        ),
        Check(
            "restored a second time", 1, "restoring", leaves="again", tolerance=ADAM,
            advice="The model was restored, trained and restored from the same snapshot. `restore` must leave the "
            "snapshot as it is.",
        ),
        Check("losses after the restore", 1, "restoring", leaves="losses", tolerance=ADAM),
    ),
)  # fmt: skip
