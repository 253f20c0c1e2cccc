"""What problem 19 looks at: values, and the dtypes in the traced program. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.compiled import equations
from grader.worker.pytrees import named
from grader.worker.subject import Reading, Subject, run

# A maximum is exact in any precision, so it may be taken of bfloat16.
DELICATE = {"exp", "exp2", "log", "log1p", "rsqrt", "sqrt", "reduce_sum", "cumsum", "logistic"}


def precision(subject: Subject, case: Case) -> Reading:
    """Logits, loss and gradient, and how many equations of the loss work in a dtype that the page does not allow."""
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
    """How many products have an operand that is not bfloat16, and how many delicate operations one that is."""
    products, rough = 0, dict.fromkeys(("exponentials", "logarithms", "roots", "sums"), 0)
    for equation in equations(program, *args):
        dtypes = [v.aval.dtype for v in equation.invars if hasattr(v.aval, "dtype")]
        name = equation.primitive.name
        if name == "dot_general":
            products += any(dtype != jnp.bfloat16 for dtype in dtypes)
        elif name in DELICATE and jnp.bfloat16 in dtypes:
            kind = {"exp": "exponentials", "exp2": "exponentials", "logistic": "exponentials", "log": "logarithms",
                    "log1p": "logarithms", "rsqrt": "roots", "sqrt": "roots"}.get(name, "sums")  # fmt: skip
            rough[kind] += 1
    return {"products_in_float32": np.int32(products), **{f"rough.{key}": np.int32(n) for key, n in rough.items()}}


PROBES = {"precision": precision}
