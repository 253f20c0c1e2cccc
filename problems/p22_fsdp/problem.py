"""Problem 22: parameters and optimizer sharded over the data axis."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, exact
from grader.problem import ADAM, Cases, Check, Entry, Problem, Tolerance

STEPS = 3

# Where rounding decides the sign of a step of Adam, the gradient is nearly 0, so the step hardly changes the loss.
LOSSES = Tolerance(rtol=1e-4, atol=1e-4)


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V = sizes["V"]
    token_ids = rng.integers(0, V - 1, (STEPS, 8, sizes["T"])).astype("int32")
    token_ids[:, ::2, 2:] = V - 1  # short stories, so that a mean over stories is not one over tokens
    return {
        "token_ids": token_ids,
        "pad_id": V - 1,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


PROBLEM = Problem(
    title="Fully sharded data parallelism",
    builds_on=(8, 21),
    entries=(
        Entry("fsdp_spec", ("shape", "devices")),
        Entry("create_sharded", ("make", "mesh")),
        Entry("fsdp_step", ("model", "optimizer", "token_ids", "pad_id")),
    ),
    cases={"cases": Cases(batches, {"V": (17, 19), "T": (6,), "D": (16,), "F": (48, 40)}, draws=1)},
    checks=(
        exact("sharded axis", 2, "specs", "spec", words=PLACES),
        exact("model sharding", 1, "training", "placed.model", words=PLACES),
        exact("optimizer sharding", 1, "training", "placed.optimizer", words=PLACES),
        exact("bytes per device", 1, "training", "bytes_on_device"),
        Check("initial values equal make()'s", 1, "training", leaves="initial", tolerance=ADAM),
        exact(
            "initialized sharded", 1, "training", "real_calls_of_make",
            advice="`make` ran outside jit, so it created every array whole on one device. Run it inside a jitted function with "
            "`out_shardings`.",
        ),
        Check("losses equal one device's", 1, "training", leaves="losses", tolerance=LOSSES),
        Check("parameters equal one device's", 1, "training", leaves="parameters", tolerance=ADAM),
        exact("sharding unchanged after training", 1, "training", "after", words=PLACES),
        exact("state donated", 1, "training", "donated", words={0: "kept", 1: "donated"}),
    ),
    devices=8,
    timeout=60.0,
)  # fmt: skip
