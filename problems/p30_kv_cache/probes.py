"""Probes of problem 30: the logits of each step, and the cost of one step. Run in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError
from grader.worker.subject import Reading, Subject, run
from grader.worker.toy_models import ToyGPT


def decoding(subject: Subject, case: Case) -> Reading:
    """The logits after each token, and how often the step is compiled."""
    program, state, cache = _program(subject, case)
    arrays: dict[str, Any] = {}
    notes: list[str] = []
    jitted, traces = subject.once("step", case, lambda: (jax.jit(program.step), program.traces))
    for position, token_id in enumerate(case.values["token_ids"]):
        (logits, cache), notes = run(jitted, state, cache, jnp.asarray(token_id))
        arrays[f"logits.{position}"] = logits
    return Reading({**arrays, "compilations": np.int32(traces[0])}, notes)


def cost(subject: Subject, case: Case) -> Reading:
    """The bytes of the cache, and the operations of one compiled step, as XLA counts them."""

    def measure() -> dict[str, Any]:
        program, state, cache = _program(subject, case)
        compiled = jax.jit(program.step).lower(state, cache, jnp.asarray(case.values["token_ids"][0])).compile()
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(cache))
        return {"bytes": np.int64(size), "operations": np.float32(compiled.cost_analysis()["flops"])}

    return Reading(subject.once("cost", case, measure))


class _Program:
    """One step as a function of arrays only. `traces` counts how often Python runs it."""

    def __init__(self, subject: Subject, graphdef: Any) -> None:
        self.subject, self.graphdef, self.traces = subject, graphdef, [0]

    def step(self, state: Any, cache: Any, token_id: Any) -> Any:
        self.traces[0] += 1
        result = self.subject.call("decode_step", nnx.merge(self.graphdef, state), cache, token_id)
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise BadOutputError("`decode_step` must return the pair (logits, cache)")
        if result[0] is None or jnp.ndim(result[0]) != 1:
            raise BadOutputError(f"`decode_step` returned logits of shape {jnp.shape(result[0])}; they must be (V,)")
        return tuple(result)


def _program(subject: Subject, case: Case) -> tuple[_Program, Any, Any]:
    model = ToyGPT.of(case)
    cache = subject.call("empty_cache", model, case.values["context"])
    graphdef, state = nnx.split(model)
    return _Program(subject, graphdef), state, jax.tree.map(jnp.asarray, cache)


PROBES = {"decoding": decoding, "cost": cost}
