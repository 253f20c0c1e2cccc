"""Probes of problem 10: the rate at every step of a short run, called directly and by an optimizer. Runs in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.problem import Case
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Reading, Subject, is_tracing_error

AFTER = 6  # steps compared after the end of the decay


def rates(subject: Subject, case: Case) -> Reading:
    """The rates of the warm-up, the cosine and the steps after it, and whether the schedule can be traced."""
    schedule, (warmup, end) = _schedule(subject, case), _steps(case)
    steps = jnp.arange(end + AFTER)
    try:
        curve, traceable = subject.once("rates", case, lambda: jax.jit(jax.vmap(schedule))(steps)), True
    except Exception as error:
        if not is_tracing_error(error):
            raise
        curve, traceable = jnp.stack([jnp.asarray(schedule(step)) for step in range(len(steps))]), False
    if curve.shape != steps.shape:
        raise BadOutputError(f"the schedule returned an array of shape {curve.shape[1:]}; it must return a scalar")
    return Reading(
        {
            "rate.warmup": curve[: warmup + 1],
            "rate.cosine": curve[warmup : end + 1],
            "rate.after": curve[end:],
            "traceable": np.int32(traceable),
        }
    )


def optimizing(subject: Subject, case: Case) -> Reading:
    """The rate that `optax.sgd` takes from the schedule at each step."""
    tx = optax.sgd(_schedule(subject, case))

    def step(state: Any, _: None) -> tuple[Any, jax.Array]:
        update, state = tx.update(jnp.ones(()), state)
        return state, -update

    def rates() -> jax.Array:
        return jax.lax.scan(step, tx.init(jnp.zeros(())), None, length=_steps(case)[1])[1]

    return Reading({"rate": subject.once("optimizing", case, rates)})


def _schedule(subject: Subject, case: Case) -> Callable[[Any], Any]:
    sizes = [case.values[key] for key in ("peak", "warmup_steps", "decay_steps")]
    schedule: Callable[[Any], Any] = subject.call("warmup_cosine", *sizes, returns=(Callable, "a function of the step"))
    return schedule


def _steps(case: Case) -> tuple[int, int]:
    return int(case.values["warmup_steps"]), int(case.values["decay_steps"])


PROBES = {"rates": rates, "optimizing": optimizing}
