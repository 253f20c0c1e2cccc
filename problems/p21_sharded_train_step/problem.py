"""Problem 21: a train step sharded over a mesh of devices."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, exact
from grader.problem import ADAM, Cases, Check, Entry, Problem, Tolerance

STEPS = 3

# Where rounding decides the sign of a step of Adam, the gradient is nearly 0, so the step hardly changes the loss.
LOSSES = Tolerance(rtol=1e-4, atol=1e-4)


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Batches whose number of rows is divisible by 4, for a model whose widths are divisible by 2."""
    V = sizes["V"]
    token_ids = rng.integers(0, V - 1, (STEPS, sizes["B"], sizes["T"])).astype("int32")
    token_ids[:, ::2, 2:] = V - 1  # short stories, so that a mean over stories is not one over tokens
    return {
        "token_ids": token_ids,
        "pad_id": V - 1,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


# XLA may gather a few activations, depending on how the loss is written. The parameters are several times as large.
GATHERED = Tolerance(rtol=0.25, atol=256, room=4)


PROBLEM = Problem(
    title="A sharded train step",
    builds_on=(7, 8),
    entries=(
        Entry("shard_state", ("node", "mesh")),
        Entry("shard_batch", ("token_ids", "mesh")),
        Entry("sharded_train_step", ("model", "optimizer", "token_ids", "pad_id")),
    ),
    cases={"cases": Cases(batches, {"V": (12, 10), "B": (8,), "T": (6,), "D": (32,), "F": (48,)}, draws=1)},
    checks=(
        exact("model sharding", 1, "sharded_training", "placed.model", words=PLACES),
        exact("optimizer sharding", 1, "sharded_training", "placed.optimizer", words=PLACES),
        exact("bytes per device", 1, "sharded_training", "bytes_on_device"),
        exact("batch sharding", 1, "sharded_training", "placed.batch", words=PLACES),
        Check("losses equal one device's", 2, "sharded_training", leaves="losses", tolerance=LOSSES),
        Check("parameters equal one device's", 1, "sharded_training", leaves="parameters", tolerance=ADAM),
        exact("sharding unchanged after training", 1, "sharded_training", "after", words=PLACES),
        exact("state donated", 1, "sharded_training", "donated", words={0: "kept", 1: "donated"}),
        Check(
            "parameters not gathered", 1, "sharded_training", leaves="bytes_gathered", compare="at_most", tolerance=GATHERED,
            advice="The value is the number of bytes that the compiled step gathers on each device. Leave the parameters sharded "
            "inside the step.",
        ),
    ),
    devices=8,
    timeout=60.0,
)  # fmt: skip
