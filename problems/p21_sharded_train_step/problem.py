"""Problem 21: a train step over a mesh of devices."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance

STEPS = 3


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Batches whose rows divide by 4, for a model whose widths divide by 2."""
    V = sizes["V"]
    return {
        "token_ids": rng.integers(0, V - 1, (STEPS, sizes["B"], sizes["T"])).astype("int32"),
        "pad_id": V - 1,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


# As in problem 08, with sums over devices in another order.
ADAM = Tolerance(rtol=5e-4, atol=5e-4)

# XLA may gather a few activations, depending on how the loss is written; the parameters are several times that.
GATHERED = Tolerance(rtol=0.25, atol=256, room=4)


def look(name: str, points: int, leaves: str, **more: Any) -> Check:
    return Check(name, points, "sharded_training", leaves=leaves, **{"tolerance": EXACT, **more})


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
        look("model placed", 1, "placed.model", words=PLACES),
        look("optimizer placed", 1, "placed.optimizer", words=PLACES),
        look("bytes on each device", 1, "bytes_on_device"),
        look("batch placed", 1, "placed.batch", words=PLACES),
        look("losses equal one device's", 2, "losses", tolerance=ADAM),
        look("parameters equal one device's", 1, "parameters", tolerance=ADAM),
        look("still placed after training", 1, "after", words=PLACES),
        look("state donated", 1, "donated", words={0: "kept", 1: "donated"}),
        look("parameters not gathered", 1, "bytes_gathered", compare="at_most", tolerance=GATHERED),
    ),
    devices=8,
    timeout=60.0,
)
