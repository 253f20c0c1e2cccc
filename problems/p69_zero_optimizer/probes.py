"""Probes of problem 69: a new state, and one step, on eight CPU devices. Run in workers."""

from typing import Any

import jax
from jax.sharding import PartitionSpec

from grader.authoring import (
    Arrays,
    BadOutputError,
    Reading,
    Subject,
    called_on_mesh,
    described,
    given,
    mesh_of,
    named,
    placed,
    stablehlo,
    sum_of_losses,
    to_fill,
)
from grader.problem import Case

P = PartitionSpec


def creating(subject: Subject, case: Case) -> Reading:
    """The state for parameters that every device has."""
    mesh, (shapes, _) = mesh_of(8), _model(case)

    def program(parameters: Any) -> Arrays:
        with stablehlo.placements_are_traced():
            return named(called_on_mesh(subject, "zero_state", parameters, mesh), "state")

    parameters = {key: placed(to_fill(key, shape, "float32"), mesh, P()) for key, shape in shapes.items()}
    return subject.run(program, case, parameters)


def training(subject: Subject, case: Case) -> Reading:
    """One step from a state that is split as the page says. The rows of the batch are placed over the devices."""
    mesh, (shapes, loss_sum) = mesh_of(8), _model(case)
    rate, max_norm = case.values["learning_rate"], case.values["max_norm"]

    def program(parameters: Any, m: Any, v: Any, token_ids: Any) -> Arrays:
        state = {"count": jax.numpy.int32(3), "m": m, "v": v}
        new, state, loss, norm = called_on_mesh(
            subject, "zero_step", loss_sum, parameters, state, token_ids, mesh, rate, max_norm
        )
        if not isinstance(state, dict):
            raise BadOutputError(
                f"`zero_step` returned {described(state)} as the state; it must be a dictionary like `zero_state`'s"
            )
        reported = {"loss": loss, "norm": norm}
        return {**named(new, "parameters"), **named(state, "state"), **named(reported, "reported")}

    parameters = {key: placed(to_fill(key, shape, "float32"), mesh, P()) for key, shape in shapes.items()}
    moments = [placed(given(case, name), mesh, P("data")) for name in ("m", "v")]
    return subject.run(program, case, parameters, *moments, placed(given(case, "token_ids"), mesh, P("data", None)))


def _model(case: Case) -> Any:
    return sum_of_losses(*(int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff")))


PROBES = {"creating": creating, "training": training}
