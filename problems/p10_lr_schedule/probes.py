"""What problem 10 looks at: the rate at every step of a short run, called alone and by an optimizer. Runs in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.problem import Case
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Reading, Subject, is_tracing_error

AFTER = 6  # steps looked at beyond the end


def rates(subject: Subject, case: Case) -> Reading:
    """The rate at each step, by stretch of the curve, and whether the schedule can be traced."""
    schedule, (warmup, end) = _schedule(subject, case), _steps(case)
    steps = jnp.arange(end + AFTER)
    try:
        found, traceable = subject.once("rates", case, lambda: jax.jit(jax.vmap(schedule))(steps)), True
    except Exception as error:
        if not is_tracing_error(error):
            raise
        found, traceable = jnp.stack([jnp.asarray(schedule(step)) for step in range(len(steps))]), False
    if found.shape != steps.shape:
        raise BadOutputError(f"the schedule returned an array of shape {found.shape[1:]}; it must return one number")
    return Reading(
        {
            "rate.warmup": found[: warmup + 1],
            "rate.cosine": found[warmup : end + 1],
            "rate.after": found[end:],
            "traceable": np.int32(traceable),
        }
    )


def optimizing(subject: Subject, case: Case) -> Reading:
    """The rate that plain gradient descent takes from the schedule at each of its steps."""
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
