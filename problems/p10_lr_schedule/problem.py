"""Problem 10: two learning-rate schedules."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

# Rates are compared relatively, because they may be tiny. Near its end, a float32 cosine has an error of about 1e-5 of
# the peak, which is 1e-4 of the floor. At step 0, optax's own formula, (start - peak) + peak, has an error of up to
# 6e-8 of the peak, and the start is 1e-5 of it: the absolute tolerance lies between, which is why the peaks of runs
# with a warm-up are alike.
RATE = Tolerance(rtol=2e-4, atol=2.9e-10)
PEAKS = (3.5e-4, 4e-4)
AFTER = 6  # steps after the end of the decay whose rates are compared, the last one apart
PARTS = 16  # a part of the curve with more steps than this is compared at so many places and at its end


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The arguments of a schedule: a peak, a warm-up, and the step at which the decay ends."""
    warmup = sizes["warmup"]
    peak = float(rng.choice(PEAKS))
    return {"peak": peak, "warmup_steps": warmup, "decay_steps": warmup + sizes["cosine"]}


def at_once(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A run without a warm-up, whose peak is a whole number."""
    return {**run({"warmup": 0, **sizes}, rng), "peak": 1}


def stable(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The arguments of a schedule with a stable part."""
    start = sizes["warmup"] + sizes["stable"]
    values = run({**sizes, "cosine": sizes["stable"] + sizes["decay"]}, rng)
    return {"peak": values["peak"], "warmup_steps": values["warmup_steps"], "decay_start": start,
            "decay_steps": values["decay_steps"]}  # fmt: skip


def compared(case: Case) -> dict[str, list[int]]:
    """The steps whose rates are compared, by part of the curve. Neighboring parts share a step."""
    values = case.values
    ends = [0, *(int(values[name]) for name in ("warmup_steps", "decay_start", "decay_steps") if name in values)]
    names = ("warmup", "stable", "decay") if "decay_start" in values else ("warmup", "cosine")
    steps = {}
    for name, (start, end) in zip(names, pairwise(ends), strict=True):
        steps[name] = [*range(start, end, max((end - start) // PARTS, 1)), end]
    return {**steps, "after": [*range(ends[-1], ends[-1] + AFTER), ends[-1] + AFTER]}


def at_step(case: Case, wrong: Difference) -> str:
    step = compared(case)[wrong.path.removeprefix("rate.")][wrong.index[0]]
    return f"the rate at step {step:,} is {wrong.got}, expected {wrong.expected}"


def of_update(case: Case, wrong: Difference) -> str:
    return f"the rate at step {wrong.index[0]} is {wrong.got}, expected {wrong.expected}"


STABLE: Any = {"options": {"entry": "warmup_stable_decay"}, "tolerance": RATE, "in_words": at_step, "traced": True,
               "advice": "At step `decay_start` the rate is still `peak`, and at step `decay_steps` it is a tenth of "
               "it. Each step between them takes the same part of the fall."}  # fmt: skip

PROBLEM = Problem(
    title="A learning-rate schedule",
    minutes=60,
    builds_on=(9,),
    forbids=("optax", "flax.training"),
    allows=("optax.Schedule", "optax.ScalarOrSchedule"),
    entries=(
        Entry("warmup_cosine", ("peak", "warmup_steps", "decay_steps")),
        Entry("warmup_stable_decay", ("peak", "warmup_steps", "decay_start", "decay_steps")),
    ),
    cases={
        "cases": Cases(run, {"warmup": (4, 7, 1), "cosine": (8, 13)}),
        "no warm-up": Cases(at_once, {"cosine": (5, 6)}, draws=1, covers=("one",)),
        # 10,000 times a step of the second half is more than an int32 holds.
        "long": Cases(run, {"warmup": (2_003, 1_999), "cosine": (300_007, 290_011)}, draws=1, covers=("steps",)),
        "stable": Cases(stable, {"warmup": (4, 7), "stable": (5, 8), "decay": (8, 3)}, draws=2),
        "long stable": Cases(
            stable, {"warmup": (0,), "stable": (0,), "decay": (400_009, 390_001)}, draws=1, covers=("steps",)
        ),
    },
    checks=(
        Check("warm-up", 1, "rates", leaves="rate.warmup", tolerance=RATE, in_words=at_step),
        Check("cosine", 2, "rates", leaves="rate.cosine", tolerance=RATE, in_words=at_step),
        Check("after decay_steps", 1, "rates", leaves="rate.after", tolerance=RATE, in_words=at_step),
        Check("no warm-up", 1, "rates", leaves="rate", cases="no warm-up", tolerance=RATE, in_words=at_step),
        Check("a long run", 1, "rates", leaves="rate", cases="long", tolerance=RATE, in_words=at_step),
        Check(
            "works under jit", 1, "rates", leaves="rate", tolerance=RATE, traced=True, in_words=at_step,
            advice="The schedule needs the value of the step, which is unknown under jit. Choose with `jnp.where`, not "
                "`if`.",
        ),
        Check("inside an optimizer", 1, "optimizing", leaves="rate", tolerance=RATE, in_words=of_update),
        Check("stable, then a line", 2, "rates", leaves="rate", cases="stable", **STABLE),
        Check("no stable part, and a long decay", 1, "rates", leaves="rate", cases="long stable", **STABLE),
    ),
)  # fmt: skip
