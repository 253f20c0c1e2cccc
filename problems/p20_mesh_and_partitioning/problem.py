"""Problem 20: a mesh, and the partition of a GPT over it."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES
from grader.problem import EXACT, Cases, Check, Entry, Problem, Tolerance


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, T = sizes["V"], sizes["T"]
    return {
        "vocab_size": V,
        "d_model": sizes["D"],
        "num_heads": 2,
        "d_ff": sizes["F"],
        "num_layers": 2,
        "context": T,
        "token_ids": rng.integers(0, V, (8, T)).astype("int32"),
    }


def look(name: str, points: int, leaves: str, probe: str = "placed", **more: Any) -> Check:
    return Check(name, points, probe, leaves=leaves, **{"tolerance": EXACT, **more})


# Devices add partial sums in another order than one device would.
SUMS = Tolerance(rtol=1e-4, atol=1e-4)
# XLA may gather a few small vectors more or less from version to version; a gathered activation is several times this.
GATHERED = Tolerance(rtol=0.25, atol=512, room=4)

PROBLEM = Problem(
    title="Mesh and partitioning",
    builds_on=(6,),
    entries=(
        Entry("make_mesh", ("data", "model")),
        Entry("partition_spec", ("path", "shape", "mesh")),
        Entry("place", ("model", "mesh")),
    ),
    cases={
        "cases": Cases(gpt, {"V": (12, 14), "T": (10,), "D": (16,), "F": (24,)}, draws=1),
        "odd vocabulary": Cases(gpt, {"V": (13, 11), "T": (5,), "D": (8,), "F": (10,)}, draws=1),
    },
    checks=(
        look("mesh", 1, "mesh", "meshes"),
        look("partition of each parameter", 3, "spec", words=PLACES),
        look("what does not divide stays whole", 1, "spec", cases="odd vocabulary", words=PLACES),
        look("parameters placed", 2, "placed", words=PLACES),
        look("bytes on each device", 1, "bytes_on_device"),
        look("logits equal one device's", 1, "logits", tolerance=SUMS),
        look(
            "activations not gathered", 1, "bytes_gathered", compare="at_most", tolerance=GATHERED,
            advice="The compiled forward pass collects activations from all devices before a product. Cut the first of two "
            "products by columns and the second by rows: then each device has just what it needs.",
        ),
    ),
    devices=8,
    timeout=60.0,
)  # fmt: skip
