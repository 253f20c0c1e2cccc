"""Probes of problem 10: the rate at every step of a short run, called directly and by an optimizer. Runs in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.authoring import Arrays, BadOutputError, Reading, Subject, is_tracing_error
from grader.problem import Case
from problems.p10_lr_schedule.problem import compared


def rates(subject: Subject, case: Case, entry: str = "warmup_cosine") -> Reading:
    """The rates of the parts of the curve. The last step is a Python integer; the others are traced."""
    parts = compared(case)

    def program() -> Arrays:
        schedule, (*steps, last) = _schedule(subject, case, entry), [step for part in parts.values() for step in part]
        try:
            curve = jax.vmap(schedule)(jnp.array(steps))
        except Exception as error:
            if not (subject.eager and is_tracing_error(error)):
                raise
            curve = jnp.stack([jnp.asarray(schedule(step)) for step in steps])
        if curve is None:
            raise BadOutputError("the schedule returned None; is a `return` missing?")
        if curve.shape != (len(steps),):
            raise BadOutputError(f"the schedule returned an array of shape {curve.shape[1:]}; it must return a scalar")
        every = jnp.append(curve, jnp.asarray(schedule(last)))
        ends = np.cumsum([len(part) for part in parts.values()])
        return {f"rate.{name}": part for name, part in zip(parts, jnp.split(every, ends[:-1]), strict=True)}

    return subject.run(program, case)


def optimizing(subject: Subject, case: Case) -> Reading:
    """The rate that `optax.sgd` takes from the schedule at each step."""

    def program() -> Arrays:
        tx = optax.sgd(_schedule(subject, case, "warmup_cosine"))

        def step(state: Any, _: None) -> tuple[Any, jax.Array]:
            update, state = tx.update(jnp.ones(()), state)
            return state, -update

        return {"rate": jax.lax.scan(step, tx.init(jnp.zeros(())), None, length=int(case.values["decay_steps"]))[1]}

    return subject.run(program, case)


def _schedule(subject: Subject, case: Case, entry: str) -> Callable[[Any], Any]:
    names = ("peak", "warmup_steps", "decay_start", "decay_steps")
    arguments = [case.values[name] for name in names if name in case.values]
    schedule: Callable[[Any], Any] = subject.call(entry, *arguments, returns=(Callable, "a function of the step"))
    return schedule


PROBES = {"rates": rates, "optimizing": optimizing}
