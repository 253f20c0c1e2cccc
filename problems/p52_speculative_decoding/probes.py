"""The probe of problem 52: the exact distribution of the first token that is emitted. Runs in workers."""

import jax.numpy as jnp

from grader.authoring import Arrays, BadOutputError, Reading, Subject, given
from grader.problem import Case


def first_token(subject: Subject, case: Case) -> Reading:
    """The law of the first emitted token: each token may be drafted and accepted, or drawn from the residual
    instead."""
    V = len(given(case, "target_row"))

    def program(target_V: jnp.ndarray, draft_V: jnp.ndarray) -> Arrays:
        target_NV, draft_NV = (jnp.tile(row, (V, 1)) for row in (target_V, draft_V))
        # The next row of the target is not used. Token n is drafted at position n, and all positions have the same
        # distributions.
        accepted = jnp.asarray(
            subject.call(
                "acceptance_probabilities", jnp.concatenate([target_NV, target_V[None]]), draft_NV, jnp.arange(V)
            )
        )
        residual = jnp.asarray(subject.call("residual_distribution", target_V, draft_V))
        for name, array in {"acceptance_probabilities": accepted, "residual_distribution": residual}.items():
            if array.shape != (V,):
                raise BadOutputError(f"`{name}` returned an array of shape {array.shape}; it must return ({V},)")
        kept = draft_V * accepted
        return {"law": kept + (1 - jnp.sum(kept)) * residual}

    return subject.run(program, case, given(case, "target_row"), given(case, "draft_row"))


PROBES = {"first_token": first_token}
