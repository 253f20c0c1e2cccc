"""Problem 22: parameters and optimizer sharded over the data axis."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, exact
from grader.problem import Cases, Check, Entry, Problem, Tolerance


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V = sizes["V"]
    token_ids = rng.integers(0, V - 1, (8, sizes["T"])).astype("int32")
    token_ids[::2, 2:] = V - 1  # short stories, so that a mean over stories is not one over tokens
    token_ids[4, 1:] = V - 1  # and one with nothing to predict
    return {
        "token_ids": token_ids,
        "pad_id": V - 1,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


def sizes_of_axes(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Sizes from which the probe builds shapes: two that 8 divides, a longer one that is odd, and those of GPT-2's
    embedding."""
    return {
        "short": 8 * sizes["short"],
        "long": 8 * sizes["long"],
        "odd": 8 * sizes["long"] + 2 * sizes["odd"] + 1,
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
    }


def measure(name: str, probe: str, leaves: str, **more: Any) -> Check:
    return exact(name, 1, probe, f"program.{leaves}", **more)


# A mean of a few losses near 3, whose parts are added in another order. One step changes it by a hundredth or so, now
# and then by much less, and the loss after the step must not pass for the one before.
SAME_LOSS = Tolerance(rtol=1e-5, atol=0.0, room=5)

PROBLEM = Problem(
    title="Fully sharded data parallelism",
    minutes=70,
    builds_on=(8, 21),
    entries=(
        Entry("fsdp_spec", ("shape", "devices")),
        Entry("create_sharded", ("make", "mesh"), returns=("model", "optimizer")),
        Entry("fsdp_step", ("model", "optimizer", "token_ids", "pad_id")),
    ),
    cases={
        "cases": Cases(batches, {"V": (17, 19), "T": (6,), "D": (16,), "F": (48, 40)}, draws=1),
        "shapes": Cases(
            sizes_of_axes,
            {"short": (1, 2, 3), "long": (4, 5, 6, 7), "odd": (0, 1, 2), "V": (50257,), "D": (768, 1600)},
            draws=2, covers=("vocabulary", "one"),
        ),
    },
    checks=(
        exact("sharded axis", 2, "specs", "spec", cases="shapes", words=PLACES),
        Check("loss equals one device's", 1, "training", leaves="loss", tolerance=SAME_LOSS),
        Check("new state equals one device's", 1, "training", leaves="state"),
        measure("model sharding", "creating", "placed.initial.model", words=PLACES),
        measure("optimizer sharding", "creating", "placed.initial.optimizer", words=PLACES),
        measure("bytes per device", "creating", "bytes_of_outputs"),
        Check("initial values equal make()'s", 1, "creating", leaves="initial"),
        measure(
            "initialized sharded", "creating", "created", words={**PLACES, -1: "whole on a device"},
            advice="A device holds all of this array while the state is created. Each jitted function is a program of "
            "its own: a later one cannot shard what an earlier one has created. Run `make` in one jitted function that "
            "has `out_shardings`.",
        ),
        measure("sharding unchanged after training", "training", "placed", words=PLACES),
        measure("state donated", "training", "donated", words={0: "kept", 1: "donated"}),
    ),
    without={"coprime": "the batch, and an axis of each array, are multiples of eight devices"},
    devices=8,
    mesh=(8,),
    timeout=60.0,
)  # fmt: skip
