"""Probe of problem 19: values, and the dtypes in the traced program. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.compiled import equations
from grader.worker.pytrees import named
from grader.worker.subject import Reading, Subject, run

# Operations that must not work on bfloat16. A maximum is exact in any precision, so it is not listed.
NEED_FLOAT32 = {"exp", "exp2", "log", "log1p", "rsqrt", "sqrt", "reduce_sum", "cumsum", "logistic"}


def precision(subject: Subject, case: Case) -> Reading:
    """Logits, loss and gradient, and the number of operations of the loss in a dtype that the page does not allow."""
    graphdef, parameters, rest = subject.build("MixedLM", case)
    token_ids, pad_id = jnp.asarray(case.values["token_ids"]), case.values["pad_id"]

    def loss(parameters: Any, token_ids: Any) -> Any:
        return subject.call("mixed_loss", nnx.merge(graphdef, parameters, rest), token_ids, pad_id)

    def program(parameters: Any, token_ids: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(parameters, token_ids)
        logits = nnx.merge(graphdef, parameters, rest)(token_ids)
        return {"logits": logits, "loss": value, **named(slope, "gradient")}

    arrays, notes = run(subject.once("program", case, lambda: jax.jit(program)), parameters, token_ids)
    counts = subject.once("dtypes", case, lambda: _dtypes(loss, parameters, token_ids))
    return Reading({**arrays, **counts}, notes)


def _dtypes(program: Any, *args: Any) -> dict[str, Any]:
    """The number of products with an operand that is not bfloat16, and of NEED_FLOAT32 operations with one that is."""
    products, in_bfloat16 = 0, dict.fromkeys(("exponentials", "logarithms", "roots", "sums"), 0)
    for equation in equations(program, *args):
        dtypes = [v.aval.dtype for v in equation.invars if hasattr(v.aval, "dtype")]
        name = equation.primitive.name
        if name == "dot_general":
            products += any(dtype != jnp.bfloat16 for dtype in dtypes)
        elif name in NEED_FLOAT32 and jnp.bfloat16 in dtypes:
            kind = {"exp": "exponentials", "exp2": "exponentials", "logistic": "exponentials", "log": "logarithms",
                    "log1p": "logarithms", "rsqrt": "roots", "sqrt": "roots"}.get(name, "sums")  # fmt: skip
            in_bfloat16[kind] += 1
    counts = {f"in_bfloat16.{kind}": np.int32(count) for kind, count in in_bfloat16.items()}
    return {"products_in_float32": np.int32(products), **counts}


PROBES = {"precision": precision}
