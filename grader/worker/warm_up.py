"""A small program of the grader's own, traced and run before a worker gets its first request.

JAX and Flax import and build much of what they need on first use. The zygote does that once for all workers, as far as
it can without a backend; a worker that is started ahead of a save does the rest then.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker import stablehlo, tracing
from grader.worker.pytrees import fill_state
from grader.worker.subject import to_fill
from grader.worker.witness import Witness

_T, _V, _D = 3, 5, 4


class _Layers(nnx.Module):
    """The layers that most files of the course use."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(_V, _D, rngs=rngs)
        self.norm = nnx.LayerNorm(_D, rngs=rngs)
        self.linear = nnx.Linear(_D, _D, rngs=rngs)

    def __call__(self, token_ids: Any) -> Any:
        x_TD = self.linear(self.norm(self.embed(token_ids)))
        scores_TT = jnp.where(jnp.tril(jnp.ones((_T, _T), bool)), x_TD @ x_TD.T / jnp.sqrt(_D), -1e9)
        return jnp.einsum("ts,sd->td", jax.nn.softmax(scores_TT, axis=-1), x_TD)


def before_fork() -> None:
    """Traces a program as a worker does. Initializes no backend, so this process can still be forked afterwards."""
    stablehlo.warm_up()
    program, parameters, case = _program()
    specs = jax.tree.map(tracing.Given.spec, (parameters, tracing.given(case, "token_ids")))
    jax.jit(program).trace(*specs)


def warm_up() -> None:
    """Traces a program with a gradient as a worker does, then compiles and runs it as a witness does."""
    program, parameters, case = _program()
    Witness().run(tracing.trace(program, parameters, tracing.given(case, "token_ids")), case)


def _program() -> tuple[Callable[..., dict[str, Any]], Any, Case]:
    """Returns a program with a gradient, its parameters as `Given`, and a case for it."""
    module = nnx.eval_shape(lambda: _Layers(nnx.Rngs(0)))
    graphdef, parameters, *rest = nnx.split(module, nnx.Param, ...)

    def program(p: Any, token_ids: Any) -> dict[str, Any]:
        def total(p: Any) -> Any:
            return jnp.sum(nnx.merge(graphdef, p, *rest)(token_ids))

        loss, gradients = jax.value_and_grad(total)(p)
        return {"loss": loss, "norm": sum(jnp.sum(leaf) for leaf in jax.tree.leaves(gradients))}

    return program, fill_state(parameters, to_fill), Case({"token_ids": np.arange(_T, dtype=np.int32)})
