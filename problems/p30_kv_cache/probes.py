"""The probe of problem 30: the logits of each step. Runs in workers."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, ToyGPT, given, stepwise
from grader.problem import Case


def decoding(subject: Subject, case: Case) -> Reading:
    """The logits after each token.

    The steps are one loop, so the program holds the step once, and whatever a step leaves for the next is carried by
    the loop.
    """
    positions = {**case.values, "context": case.values["max_T"]}
    graphdef, state = ToyGPT.abstract(replace(case, values=positions))
    token_ids = given(case, "token_ids")

    def step(state: Any, cache: Any, token_id: Any) -> Any:
        logits, cache = subject.call("decode_step", nnx.merge(graphdef, state), cache, token_id)
        if logits is None or jnp.ndim(logits) != 1:
            raise BadOutputError(f"`decode_step` returned logits of shape {jnp.shape(logits)}; they must be (V,)")
        return logits, cache

    def start(state: Any) -> Any:
        return subject.call("empty_cache", nnx.merge(graphdef, state), case.values["context"])

    logits = stepwise(subject, start, step, state, token_ids)

    def program(state: Any, token_ids: Any) -> Arrays:
        logits_TV = logits(state, token_ids)
        return {f"logits.{position}": logits_TV[position] for position in range(len(token_ids))}

    return subject.run(program, case, state, token_ids)


PROBES = {"decoding": decoding}
