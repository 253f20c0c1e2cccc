"""Problem 67's probe of a text in two parts, and its measure of how much of a program runs one after the other."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.cost import rows_in_order
from grader.worker.measures import Execution
from grader.worker.mixers import extended
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import given


def parts(subject: Subject, case: Case) -> Reading:
    """The outputs of a text that comes in two parts, then one more position."""
    graphdef, parameters, rest = subject.build("SelectiveSSM", case)
    first = int(case.values["first"])  # type: ignore[arg-type]

    def program(parameters: Any, x_TD: Any) -> Arrays:
        module = nnx.merge(graphdef, parameters, rest)
        cache, outs = module.empty_cache(len(x_TD)), []
        for part in (x_TD[:first], x_TD[first:-1]):
            out, cache = extended(module, "SelectiveSSM", "extend", cache, part)
            outs.append(out)
        out, _ = extended(module, "SelectiveSSM", "decode_step", cache, x_TD[-1])
        return {"output": jnp.concatenate([*outs, out[None]])}

    return subject.run(program, case, parameters, given(case, "x"))


def rounds(execution: Execution) -> Any:
    """The operations that a run executes, each as often as it runs. Each is one after another, and works on whole arrays.

    Linear algebra takes a product, a sum and a division for each row of a matrix, which needs all rows before it.
    """
    return np.int64(sum(run.times * (3 * rows_in_order(run.operation) or 1) for run in execution.runs))


PROBES = {"parts": parts}
MEASURES = {"rounds": rounds}
