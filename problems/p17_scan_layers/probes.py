"""The probe of problem 17: the initial values of the layers. Runs in workers."""

from typing import Any

import jax.numpy as jnp
from flax import nnx

from grader.authoring import Arrays, Reading, Subject, named
from grader.problem import Case

NAME = "LayerStack"


def stacking(subject: Subject, case: Case) -> Reading:
    """The number of pairs of layers that start with nearly the same matrix."""
    depth: Any = case.values["num_layers"]

    def program() -> Arrays:
        model = subject.constructor(NAME, case)()
        matrices = [x for x in named(nnx.state(model, nnx.Param), "").values() if x.ndim == 3 and len(x) == depth]

        def alike(x: Any) -> Any:  # independent draws differ by more than their own size
            distances = jnp.mean(jnp.abs(x[:, None] - x), axis=(2, 3))
            return distances < 0.5 * jnp.mean(jnp.abs(x), axis=(1, 2))[:, None]

        equal = jnp.any(jnp.stack([alike(x) for x in matrices]), axis=0) if matrices else jnp.zeros((depth, depth))
        return {"equal_layers": jnp.sum(jnp.tril(equal, -1), dtype=jnp.int32)}

    return subject.run(program, case)


PROBES = {"stacking": stacking}
