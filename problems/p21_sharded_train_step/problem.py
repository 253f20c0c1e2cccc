"""Problem 21: a train step sharded over a mesh of devices."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, exact
from grader.problem import Cases, Check, Entry, Problem, Tolerance


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A batch whose number of rows is divisible by 4, for a model whose widths are divisible by 2."""
    V = sizes["V"]
    token_ids = rng.integers(0, V - 1, (sizes["B"], sizes["T"])).astype("int32")
    token_ids[::2, 2:] = V - 1  # short stories, so that a mean over stories is not one over tokens
    token_ids[4, 1:] = V - 1  # and one with nothing to predict
    return {
        "token_ids": token_ids,
        "pad_id": V - 1,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


# How many activations XLA exchanges depends on how the loss is written. The half of the parameters that a device does
# not have takes four times as much, so no more than 10 bits of each of them would fit.
EXCHANGED = Tolerance(rtol=0.25, atol=256, room=4)


def measure(name: str, leaves: str, probe: str = "sharded_training", **more: Any) -> Check:
    return exact(name, 1, probe, f"program.{leaves}", **more)


# A mean of a few losses near 3, whose parts are added in another order. One step changes it by a hundredth or so, now
# and then by much less, and the loss after the step must not pass for the one before.
SAME_LOSS = Tolerance(rtol=1e-5, atol=0.0, room=5)

PROBLEM = Problem(
    title="A sharded train step",
    minutes=60,
    builds_on=(7, 8),
    entries=(
        Entry("shard_state", ("node", "mesh")),
        Entry("shard_batch", ("token_ids", "mesh")),
        Entry("sharded_train_step", ("model", "optimizer", "token_ids", "pad_id")),
    ),
    cases={"cases": Cases(batches, {"V": (12, 10), "B": (8,), "T": (4,), "D": (256,), "F": (224,)}, draws=1)},
    checks=(
        Check("loss equals one device's", 2, "sharded_training", leaves="loss", tolerance=SAME_LOSS),
        Check("new state equals one device's", 1, "sharded_training", leaves="state"),
        measure("model sharding", "placed.model", "placing", words=PLACES),
        measure("optimizer sharding", "placed.optimizer", "placing", words=PLACES),
        measure("batch sharding", "placed.token_ids", "placing", words=PLACES),
        measure("bytes per device", "bytes_of_outputs", "placing"),
        measure("sharding unchanged after training", "placed", words=PLACES),
        measure("state donated", "donated", words={0: "kept", 1: "donated"}),
        measure(
            "parameters not gathered", "exchanged_bytes", compare="at_most", tolerance=EXCHANGED,
            advice="The value is the number of bytes that each device gets from devices that hold other parts of the "
            "parameters. Leave the parameters sharded inside the step.",
        ),
    ),
    without={
        "vocabulary": "the head's last axis is the vocabulary, every last axis is even, and 50,257 is odd",
        "coprime": "B is a multiple of 4, and every last axis is even",
        "one": "B is a multiple of 4, every last axis is even, and a story of one token is in each batch",
    },
    devices=8,
    mesh=(4, 2),
    timeout=60.0,
)  # fmt: skip
