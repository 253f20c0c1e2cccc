"""Probes of problem 10: the rate at every step of a short run, called directly and by an optimizer. Runs in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from grader.problem import Case
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import is_tracing_error

AFTER = 6  # steps after the end of the decay whose rates are compared, the last one apart


def rates(subject: Subject, case: Case) -> Reading:
    """The rates of the warm-up, the cosine and the steps after it. The last step is a Python integer; the others are traced."""
    warmup, end = _steps(case)

    def program() -> Arrays:
        schedule, steps = _schedule(subject, case), jnp.arange(end + AFTER)
        try:
            curve = jax.vmap(schedule)(steps)
        except Exception as error:
            if not (subject.eager and is_tracing_error(error)):
                raise
            curve = jnp.stack([jnp.asarray(schedule(step)) for step in range(len(steps))])
        if curve is None:
            raise BadOutputError("the schedule returned None; is a `return` missing?")
        if curve.shape != steps.shape:
            raise BadOutputError(f"the schedule returned an array of shape {curve.shape[1:]}; it must return a scalar")
        after = jnp.append(curve[end:], jnp.asarray(schedule(end + AFTER)))
        return {"rate.warmup": curve[: warmup + 1], "rate.cosine": curve[warmup : end + 1], "rate.after": after}

    return subject.run(program, case)


def optimizing(subject: Subject, case: Case) -> Reading:
    """The rate that `optax.sgd` takes from the schedule at each step."""

    def program() -> Arrays:
        tx = optax.sgd(_schedule(subject, case))

        def step(state: Any, _: None) -> tuple[Any, jax.Array]:
            update, state = tx.update(jnp.ones(()), state)
            return state, -update

        return {"rate": jax.lax.scan(step, tx.init(jnp.zeros(())), None, length=_steps(case)[1])[1]}

    return subject.run(program, case)


def _schedule(subject: Subject, case: Case) -> Callable[[Any], Any]:
    sizes = [case.values[key] for key in ("peak", "warmup_steps", "decay_steps")]
    schedule: Callable[[Any], Any] = subject.call("warmup_cosine", *sizes, returns=(Callable, "a function of the step"))
    return schedule


def _steps(case: Case) -> tuple[int, int]:
    return int(case.values["warmup_steps"]), int(case.values["decay_steps"])  # type: ignore[arg-type]


PROBES = {"rates": rates, "optimizing": optimizing}
