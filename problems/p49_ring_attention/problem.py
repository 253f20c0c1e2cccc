"""Problem 49: attention whose keys and values travel around a ring of devices."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance


def normal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Unit-normal queries, keys and values."""
    return {name: rng.standard_normal((sizes["T"], sizes["K"])).astype("float32") for name in ("q", "k", "v")}


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores whose exponential overflows in float32. The largest of query 0 is hidden from it, and the visible one is
    low."""
    values = normal(sizes, rng)
    values["q"][0], values["k"][0], values["k"][-1] = 1, -1, 1
    return {**values, "q": values["q"] * 100, "k": values["k"] * 100}


def in_words(_: Case, wrong: Difference) -> str:
    """What the devices exchange."""
    kind = wrong.path.removeprefix("exchanged.")
    if kind == "hops":
        return f"a `ppermute` sends blocks over {wrong.got} devices of the ring, expected {wrong.expected}"
    if kind == "turns":
        return (
            f"`ppermute` sends as much as {wrong.got} turns of all keys and values, expected at most {wrong.expected}"
        )
    return f"the program executes {wrong.got} `{kind}`, expected {wrong.expected}"


SENT = (
    "Only `ppermute` may move keys and values, from each device to a neighbor. A collective that you did not write "
    "comes from "
    '`in_specs` or `out_specs` other than `P("context", None)`.'
)

# Neighboring float32 numbers near 10,000 are 0.001 apart, so the scores themselves, and with them the weights, are that
# rough.
SATURATED = Tolerance(rtol=2e-3, atol=2e-3)
# Measured: programs with a loop of JAX need up to 1.4 times the memory of the reference. Those that hold the keys, or
# the scores, of all blocks need at least 2.1 times as much. A Python loop, which XLA runs with all blocks in memory,
# needs more.
BLOCK = Tolerance(rtol=0.8, atol=0.0, room=2)

PROBLEM = Problem(
    title="Ring attention",
    minutes=105,
    builds_on=(2, 47),
    entries=(Entry("ring_attention", ("q", "k", "v", "mesh")),),
    cases={
        "cases": Cases(normal, {"T": (24,), "K": (5,)}, draws=1, covers=("coprime",)),
        "one": Cases(normal, {"T": (8,), "K": (1,)}, draws=1, covers=("one",)),
        "large": Cases(large, {"T": (24,), "K": (5,)}, draws=1),  # as above: one program for both
        # A device's block of scores is as large as its block of keys: all keys are too much memory, and so are all
        # scores.
        "long": Cases(normal, {"T": (256, 264), "K": (32,)}, draws=1),
    },
    checks=(
        Check("output", 2, "attention", leaves="output"),
        Check("gradient", 2, "attention", leaves="gradient"),
        Check("one position a device", 1, "forward", leaves="output", cases="one"),
        Check("large scores stay finite", 1, "attention", leaves="output", cases="large", tolerance=SATURATED),
        exact(
            "blocks sent to neighbors "
            "only", 1, "forward", "program.exchanged", cases="long", in_words=in_words, advice=SENT,
        ),
        exact(
            "gradients sent to neighbors only", 1, "attention", "program.exchanged", cases="long", in_words=in_words,
            advice="The program with gradients exchanges something else than blocks between neighbors. " + SENT,
        ),
        Check(
            "memory of one block", 2, "forward", leaves="program.temporary_bytes", cases="long", compare="at_most",
            tolerance=BLOCK,
            advice="A device holds the keys, the values or the scores of several blocks at once. Attend to one block "
            "in each turn of a `jax.lax.scan` or `jax.lax.fori_loop`, merge it into the running softmax, and send it "
            "on.",
        ),
    ),
    devices=8,
    mesh=(8,),
    places_inputs=True,
    timeout=60.0,
)  # fmt: skip
