"""Problem 10: a learning-rate schedule."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

# Rates are compared relatively, because they may be tiny. Near its end, a float32 cosine has an error of about 1e-5 of the
# peak, which is 1e-4 of the floor.
RATE = Tolerance(rtol=2e-4, atol=1e-12)


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The arguments of a schedule: a peak, a warm-up, and the step at which the decay ends."""
    warmup = sizes["warmup"]
    peak = float(rng.choice([3e-4, 1.4e-3]))
    return {"peak": peak, "warmup_steps": warmup, "decay_steps": warmup + sizes["cosine"]}


def at_step(case: Case, wrong: Difference) -> str:
    starts = {"rate.cosine": case.values["warmup_steps"], "rate.after": case.values["decay_steps"]}
    step = starts.get(wrong.path, 0) + wrong.index[0]
    return f"the rate at step {step} is {wrong.got}, expected {wrong.expected}"


PROBLEM = Problem(
    title="A learning-rate schedule",
    builds_on=(9,),
    forbids=("optax", "flax.training"),
    allows=("optax.Schedule", "optax.ScalarOrSchedule"),
    entries=(Entry("warmup_cosine", ("peak", "warmup_steps", "decay_steps")),),
    cases={
        "cases": Cases(run, {"warmup": (4, 7, 1), "cosine": (8, 13)}),
        "no warm-up": Cases(run, {"warmup": (0,), "cosine": (5, 6)}, draws=1),
    },
    checks=(
        Check("warm-up", 1, "rates", leaves="rate.warmup", tolerance=RATE, in_words=at_step),
        Check("cosine", 2, "rates", leaves="rate.cosine", tolerance=RATE, in_words=at_step),
        Check("after decay_steps", 1, "rates", leaves="rate.after", tolerance=RATE, in_words=at_step),
        Check("no warm-up", 1, "rates", leaves="rate", cases="no warm-up", tolerance=RATE, in_words=at_step),
        Check(
            "works under jit", 1, "rates", leaves="rate", tolerance=RATE, traced=True, in_words=at_step,
            advice="The schedule needs the value of the step, which is unknown under jit. Choose with `jnp.where`, not `if`.",
        ),
        Check("inside an optimizer", 1, "optimizing", leaves="rate", tolerance=RATE, in_words=at_step),
    ),
)  # fmt: skip
