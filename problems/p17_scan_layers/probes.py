"""Probes of problem 17: the initial values of the layers, and the growth of the program with depth. Runs in workers."""

from dataclasses import replace

import jax
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.compiled import size
from grader.worker.pytrees import named
from grader.worker.subject import Reading, Subject

NAME = "LayerStack"


def stacking(subject: Subject, case: Case) -> Reading:
    """The number of pairs of layers that share an initial matrix, and the lines that four more layers add to the program."""
    depth = int(case.values["num_layers"])

    def lines(depth: int) -> int:
        deep = replace(case, values={**case.values, "num_layers": depth})
        call, parameters, arrays = subject.bind(NAME, deep)
        return size(call, parameters, arrays)

    growth = subject.once("growth", case, lambda: lines(depth + 4) - lines(depth))
    model = subject.constructor(NAME, case)()
    matrices = [x for x in named(nnx.state(model, nnx.Param), "").values() if x.ndim == 3 and len(x) == depth]
    pairs = [(i, j) for i in range(depth) for j in range(i)]
    equal = sum(any(bool(np.array_equal(x[i], x[j])) for x in jax.device_get(matrices)) for i, j in pairs)
    return Reading({"equal_layers": np.int32(equal), "growth": np.int32(growth)})


PROBES = {"stacking": stacking}
