"""The probe of problem 17: the initial values of the layers. Runs in workers."""

from typing import Any

import jax.numpy as jnp
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject

NAME = "LayerStack"


def stacking(subject: Subject, case: Case) -> Reading:
    """The number of pairs of layers that start with nearly the same matrix."""
    depth: Any = case.values["num_layers"]

    def program() -> Arrays:
        model = subject.constructor(NAME, case)()
        matrices = [x for x in named(nnx.state(model, nnx.Param), "").values() if x.ndim == 3 and len(x) == depth]
        pairs = [(i, j) for i in range(depth) for j in range(i)]

        def alike(x: Any, y: Any) -> Any:  # independent draws differ by more than their own size
            return jnp.mean(jnp.abs(x - y)) < 0.5 * jnp.mean(jnp.abs(x))

        equal = [jnp.any(jnp.stack([alike(x[i], x[j]) for x in matrices])) for i, j in pairs if matrices]
        return {"equal_layers": jnp.sum(jnp.asarray(equal, jnp.int32), dtype=jnp.int32)}

    return subject.run(program, case)


PROBES = {"stacking": stacking}
