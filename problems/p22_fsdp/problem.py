"""Problem 22: parameters and optimizer sharded over the data axis."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance

STEPS = 3


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V = sizes["V"]
    return {
        "token_ids": rng.integers(0, V - 1, (STEPS, 8, sizes["T"])).astype("int32"),
        "pad_id": V - 1,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


# As in problem 08, with sums over devices in another order.
ADAM = Tolerance(rtol=5e-4, atol=5e-4)


def look(name: str, points: int, leaves: str, probe: str = "training", **more: Any) -> Check:
    return Check(name, points, probe, leaves=leaves, **{"tolerance": EXACT, **more})


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
        look("which axis is cut", 2, "spec", "specs", words=PLACES),
        look("model placed", 1, "placed.model", words=PLACES),
        look("optimizer placed", 1, "placed.optimizer", words=PLACES),
        look("bytes on each device", 1, "bytes_on_device"),
        look("the same start as make()", 1, "initial", tolerance=ADAM),
        look(
            "born in pieces", 1, "real_calls_of_make",
            advice="`make` was run outside of jit: it made every array whole, on one device. Run it inside a jitted function "
            "with `out_shardings`.",
        ),
        look("losses equal one device's", 1, "losses", tolerance=ADAM),
        look("parameters equal one device's", 1, "parameters", tolerance=ADAM),
        look("still placed after training", 1, "after", words=PLACES),
        look("state donated", 1, "donated", words={0: "kept", 1: "donated"}),
    ),
    devices=8,
    timeout=60.0,
)  # fmt: skip
