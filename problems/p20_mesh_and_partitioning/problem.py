"""Problem 20: a mesh, and a GPT sharded over it."""

from collections.abc import Mapping
from typing import Any

from grader.checks import PLACES, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, T = sizes["V"], sizes["T"]
    return {
        "vocab_size": V,
        "d_model": sizes["D"],
        "num_heads": 2,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "context": T,
        "token_ids": rng.integers(0, V, (sizes["B"], T)).astype("int32"),
    }


def of_mesh(_case: Case, wrong: Difference) -> str:
    """A sentence on a wrong number of the probe `meshes`."""
    _, shape, what = wrong.path.split(".")
    mesh = f"`make_mesh({', '.join(shape.split('x'))})`"
    if what == "devices":
        return f"the number of different devices in {mesh} is {wrong.got}, expected {wrong.expected}"
    names = {"1": "'data'", "2": "'model'"}
    got, expected = names.get(wrong.got, "something else"), names.get(wrong.expected)
    sentence = {
        "names": f"is called {got}, expected {expected}",
        "sizes": f"has {wrong.got} devices, expected {wrong.expected}",
        "auto": "has another type than `AxisType.Auto`",
    }[what]
    return f"axis {wrong.index[0]} of {mesh} {sentence}"


# Several devices add partial sums in another order than one device.
SUMS = Tolerance(rtol=1e-4, atol=1e-4)
# XLA versions differ by a few small exchanged vectors. One more exchanged activation is several times this size.
EXCHANGED = Tolerance(rtol=0.0, atol=512, room=4)

PROBLEM = Problem(
    title="Mesh and partitioning",
    minutes=75,
    builds_on=(6,),
    entries=(
        Entry("make_mesh", ("data", "model")),
        Entry("partition_spec", ("path", "shape", "mesh")),
        Entry("place", ("model", "mesh")),
    ),
    cases={
        "cases": Cases(gpt, {"V": (12, 14), "T": (10,), "D": (16,), "F": (24,), "L": (2,), "B": (8,)}, draws=1),
        "odd vocabulary": Cases(gpt, {"V": (13, 11), "T": (5,), "D": (8,), "F": (10,), "L": (1,), "B": (8,)}, draws=1),
        # Only names and shapes: no array is made of these sizes.
        "large": Cases(
            gpt, {"V": (50257,), "T": (1025, 1023), "D": (768,), "F": (3067,), "L": (13, 12), "B": (1,)},
            draws=1, covers=("layers", "vocabulary", "coprime", "one"),
        ),
    },
    checks=(
        exact("mesh", 1, "meshes", "mesh", in_words=of_mesh),
        exact("partition spec of each parameter", 3, "specs", "spec", words=PLACES),
        exact("indivisible axes stay whole", 1, "specs", "spec", cases="odd vocabulary", words=PLACES),
        exact("a model of the size of GPT-2", 1, "specs", "spec", cases="large", words=PLACES),
        Check("logits equal one device's", 1, "forward", leaves="logits", tolerance=SUMS),
        exact("parameter sharding", 2, "placing", "program.placed", options={"shape": [4, 2]}, words=PLACES),
        exact("bytes per device", 1, "placing", "program.bytes_of_outputs", options={"shape": [2, 4]}),
        Check(
            "activations not "
            "gathered", 1, "forward", leaves="program.held_bytes", compare="at_most", tolerance=EXCHANGED,
            values_tolerance=SUMS,
            advice="The value is the number of bytes of parameters and exchanged arrays on each device. Shard the "
            "first of two products by columns and the second by rows: then each device already has the activations "
            "that it needs.",
        ),
    ),
    devices=8,
    mesh=(4, 2),
    timeout=60.0,
)  # fmt: skip
