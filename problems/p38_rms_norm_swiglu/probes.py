"""The probe of problem 38: RMSNorm on bfloat16, and what its program does in bfloat16. Runs in workers."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import Arrays, Execution, Reading, Subject, given, named, stablehlo
from grader.problem import Case

# Operations that must not work on bfloat16, as StableHLO names them. A correct program adds nothing in bfloat16.
NEED_FLOAT32 = {
    "add": "sums", "reduce": "sums", "reduce_window": "sums", "dot_general": "sums",
    "rsqrt": "roots", "sqrt": "roots", "power": "roots", "exponential": "roots", "log": "roots",
}  # fmt: skip


def half_precision(subject: Subject, case: Case) -> Reading:
    """The output for x in bfloat16."""
    graphdef, parameters, rest = subject.build("RMSNorm", case)

    def program(parameters: Any, x: Any) -> Arrays:
        return named(nnx.merge(graphdef, parameters, rest)(x.astype(jnp.bfloat16)), "output")

    return subject.run(program, case, parameters, given(case, "x"))


def in_bfloat16(execution: Execution) -> dict[str, Any]:
    """The number of squares, sums and roots on bfloat16, or rounded to it: what has fewer numbers than a row is one of
    a row."""
    counts, D = dict.fromkeys(("squares", "sums", "roots"), 0), int(execution.case.values["d_model"])
    for operation in stablehlo.operations(execution.compiled.parsed):
        name, operands = operation.name.removeprefix("stablehlo."), list(operation.operands)
        if name == "multiply" and operands[0] == operands[1]:
            counts["squares"] += "bf16" in stablehlo.dtypes(operands)
        elif (
            name == "dot_general"
        ):  # may ask for float32 sums of bfloat16 numbers, whose products float32 holds exactly
            counts["sums"] += stablehlo.dtypes(operation.results) == ["bf16"]
        elif name == "convert":
            counts["roots"] += stablehlo.dtypes(operation.results) == ["bf16"] and stablehlo.numbers(operands[0]) < D
        elif name in NEED_FLOAT32 and "bf16" in stablehlo.dtypes(operands):
            counts[NEED_FLOAT32[name]] += name != "reduce" or stablehlo.reduces_by(operation, "stablehlo.add")
    return {kind: np.int32(count) for kind, count in counts.items()}


PROBES = {"half_precision": half_precision}
MEASURES = {"in_bfloat16": in_bfloat16}
