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
    counts = subject.once("dtypes", case, lambda: _dtypes(case, loss, parameters, token_ids))
    return Reading({**arrays, **counts}, notes)


def _dtypes(case: Case, program: Any, *args: Any) -> dict[str, Any]:
    """The products with an operand that is not bfloat16, and the NEED_FLOAT32 operations with one that is, by kind."""
    products = dict.fromkeys(("projections", "scores", "weighted_sum", "feed_forward", "head"), 0)
    in_bfloat16 = dict.fromkeys(("exponentials", "logarithms", "roots", "sums", "logits"), 0)
    for equation in equations(program, *args):
        operands = [v.aval for v in equation.invars if hasattr(v.aval, "dtype")]
        dtypes = [operand.dtype for operand in operands]
        name = equation.primitive.name
        if name == "dot_general":
            result = equation.outvars[0].aval
            (_, _), (batch, _) = equation.params["dimension_numbers"]
            if result.ndim > len(batch):  # otherwise each product is one of two vectors
                kind = _product(case, *(operand.shape for operand in (*operands, result)))
                products[kind] += any(dtype != jnp.bfloat16 for dtype in dtypes)
                # XLA may drop a rounding to bfloat16 that a cast to float32 follows, so the values do not show it.
                in_bfloat16["logits"] += kind == "head" and result.dtype != jnp.float32
        elif name in NEED_FLOAT32 and jnp.bfloat16 in dtypes:
            kind = {"exp": "exponentials", "exp2": "exponentials", "logistic": "exponentials", "log": "logarithms",
                    "log1p": "logarithms", "rsqrt": "roots", "sqrt": "roots"}.get(name, "sums")  # fmt: skip
            in_bfloat16[kind] += 1
    return {
        **{f"products_in_float32.{kind}": np.int32(count) for kind, count in products.items()},
        **{f"in_bfloat16.{kind}": np.int32(count) for kind, count in in_bfloat16.items()},
    }


def _product(case: Case, left: tuple[int, ...], right: tuple[int, ...], result: tuple[int, ...]) -> str:
    """Which product of the model has these shapes. The sizes of a case are all different."""
    sizes = {*left, *right, *result}
    if int(case.values["vocab_size"]) in sizes:
        return "head"
    if int(case.values["d_ff"]) in sizes:
        return "feed_forward"
    T = len(np.atleast_1d(case.values["token_ids"]))
    if result.count(T) >= 2:
        return "scores"
    return "weighted_sum" if max(left.count(T), right.count(T)) >= 2 else "projections"


PROBES = {"precision": precision}
