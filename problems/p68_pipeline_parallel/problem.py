"""Problem 68: a pipeline of stages over four devices."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

SCHEDULE, STEP = "forward_schedule", "pipeline_step"
STAGES = 4


def microbatches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations and targets of M microbatches, for stages of width F."""
    M, B, D = sizes["M"], sizes["B"], sizes["D"]
    x, targets = rng.standard_normal((2, M, B, D)).astype("float32")
    return {"x": x, "targets": targets, "d_ff": sizes["F"]}


def counts(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"stages": sizes["S"], "microbatches": sizes["M"]}


# With 8 microbatches, a device of the reference runs 11 stages forward. One microbatch after the other, or all stages
# on every device, it runs 32. Sums and masks beside the stages may take a few operations more.
WORK = Tolerance(rtol=0.5, atol=0.0, room=3)
# A correct program may leave out the last send. One microbatch after the other sends three times as much.
SENDS = Tolerance(rtol=0.3, atol=0.0, room=3)


def work(case: Case, difference: Difference) -> str:
    return f"a device executes {difference.got} scalar operations; {difference.expected} are allowed"


def sends(case: Case, difference: Difference) -> str:
    what = "`ppermute` produces" if difference.path.endswith("permutes") else "other collectives produce"
    return f"{what} {difference.got} bytes on each device; {difference.expected} are allowed"


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, with the shapes of the parameters in place of the width of a stage."""
    D, F = values["x"].shape[-1], values["d_ff"]
    shapes = f"up {STAGES, D, F}, bias {STAGES, F}, down {STAGES, F, D}"
    return {"shapes of the parameters": shapes, "x": values["x"], "targets": values["targets"]}


PROBLEM = Problem(
    title="A pipeline of stages",
    minutes=90,
    builds_on=(12, 47, 49),
    entries=(
        Entry(SCHEDULE, ("stages", "microbatches")),
        Entry(STEP, ("stage", "loss", "parameters", "x", "targets", "mesh"), returns=("loss", "gradients")),
    ),
    cases={
        "counts": Cases(counts, {"S": (4, 3, 1), "M": (6, 2, 5)}, draws=3),
        "one tick": Cases(counts, {"S": (1,), "M": (1,)}, draws=1),
        # The parameters of a stage are many times as many as the activations of a microbatch. Otherwise, all of them
        # could be sent to all devices, in a few bits a number, in place of activations.
        "cases": Cases(microbatches, {"M": (8, 7), "B": (5,), "D": (3,), "F": (61,)}, draws=1, show=shown,
            covers=("coprime",)),
        "few": Cases(microbatches, {"M": (1, 2), "B": (1,), "D": (4,), "F": (5,)}, draws=1, show=shown,
            covers=("one",)),
    },
    checks=(
        exact("schedule", 1, "values", "output", options={"entry": SCHEDULE}, cases="counts"),
        exact("schedule of one tick", 1, "values", "output", options={"entry": SCHEDULE}, cases="one tick"),
        Check("loss", 1, "training", leaves="loss"),
        Check("gradients of all stages", 2, "training", leaves="gradients"),
        Check("fewer microbatches than stages", 1, "training", leaves="", cases="few"),
        exact(
            "stages stay on their devices", 1, "training", "program.placed", words={0: "not "
                "split", 1: "split over stage"},
            advice="Each device has the parameters of its own stage, and returns their gradients, split along the "
                "first axis.",
        ),
        Check(
            "no more bubbles than the "
            "schedule's", 2, "training", {}, "program.work", "cases", "at_most", WORK, in_words=work,
            advice="A device runs its stage once in each of M + S - 1 ticks. Start the next microbatch as soon as the "
            "first stage is free, and let no device run the stages of others.",
        ),
        Check(
            "sends to neighbors", 2, "training", {}, "program.sent", "cases", "at_most", SENDS, in_words=sends,
            advice="A device sends one microbatch of activations on in each tick, and receives one gradient in each "
            "tick of the way back. Nothing is gathered or summed but the loss.",
        ),
    ),
    devices=STAGES,
    mesh=(STAGES,),
    places_inputs=True,
    timeout=60.0,
)  # fmt: skip
