"""Probes of problem 37: the scores of rotated queries and keys, and vectors in bfloat16. Run in workers."""

from typing import Any

import jax.numpy as jnp

from grader.authoring import Arrays, BadOutputError, Reading, Subject, given, named
from grader.problem import Case


def scores(subject: Subject, case: Case) -> Reading:
    """The scores of the last query with keys that were rotated one by one, and all scores at later positions."""
    base, shift = case.values["base"], case.values["shift"]

    def rotated(x_THK: Any, positions: Any) -> Any:
        out = subject.call("rope", x_THK, positions, base, "halves")
        if jnp.shape(out) != x_THK.shape:
            raise BadOutputError(f"`rope` returned {jnp.shape(out)} for x {x_THK.shape}; the shapes must be equal")
        return out

    def program(q_THK: Any, k_THK: Any) -> Arrays:
        T = len(q_THK)
        keys = [rotated(k_THK[t : t + 1], jnp.array([t], jnp.int32)) for t in range(T)]
        query = rotated(q_THK[-1:], jnp.array([T - 1], jnp.int32))
        moved = jnp.arange(T, dtype=jnp.int32) + shift
        return {
            "cached": jnp.einsum("thk,shk->hs", query, jnp.concatenate(keys)),
            "shifted": jnp.einsum("thk,shk->hts", rotated(q_THK, moved), rotated(k_THK, moved)),
        }

    return subject.run(program, case, given(case, "q"), given(case, "k"))


def large(subject: Subject, case: Case) -> Reading:
    """The result at large positions, or only that it is the same at others: where a table ends says nothing about the
    angles."""
    values = case.values

    def program(x: Any, positions: Any) -> Arrays:
        result, other = (
            subject.call("rope", x, at, values["base"], values["pairing"]) for at in (positions, positions - 10_000)
        )
        same = jnp.allclose(result, other, atol=1e-5)  # two copies of a program may round differently
        leaves = named(result, "output")
        return {"output.is_that_of_other_positions": same.astype(jnp.int32)} | {
            name: jnp.where(same, 0, leaf) for name, leaf in leaves.items()
        }

    return subject.run(program, case, given(case, "x"), given(case, "positions"))


def half_precision(subject: Subject, case: Case) -> Reading:
    """The result for x in bfloat16."""
    values = case.values

    def program(x: Any, positions: Any) -> Arrays:
        return named(
            subject.call("rope", x.astype(jnp.bfloat16), positions, values["base"], values["pairing"]), "output"
        )

    return subject.run(program, case, given(case, "x"), given(case, "positions"))


PROBES = {"large": large, "scores": scores, "half_precision": half_precision}
