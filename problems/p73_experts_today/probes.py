"""The probe of problem 73: training steps in which only the bias of the router changes. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp

from grader.authoring import Arrays, Reading, Subject, given
from grader.problem import Case
from problems.p73_experts_today.problem import FULLEST, RATE, STEPS


def balancing(subject: Subject, case: Case) -> Reading:
    """How many tokens the fullest expert has after the steps, as a multiple of the mean, if that is above FULLEST."""
    k = case.values["k"]

    def program(x: Any, w: Any) -> Arrays:
        E = w.shape[1]

        def counted(bias: Any) -> Any:
            return jnp.bincount(jnp.ravel(subject.call("route", x, w, bias, k)[0]), length=E)

        def step(bias: Any, _: Any) -> Any:
            return jnp.asarray(subject.call("update_bias", bias, counted(bias), RATE), jnp.float32), None

        bias = jnp.zeros(E)
        if subject.eager:
            for _ in range(STEPS):
                bias, _ = step(bias, None)
        else:
            bias, _ = jax.lax.scan(step, bias, None, length=STEPS)
        return {"fullest": jnp.maximum(counted(bias).max() * E / (k * len(x)), FULLEST)}

    return subject.run(program, case, given(case, "x"), given(case, "w"))


PROBES = {"balancing": balancing}
