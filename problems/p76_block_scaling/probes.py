"""Probes of problem 76: blocks, a product and its gradients, an error bound, and many random roundings. Run in
workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import Arrays, BadOutputError, Execution, Reading, Subject, given, named, stablehlo
from grader.problem import Case

BLOCK = 32
DRAWS = 4096
SMALL = ("f8E4M3FN", "f4E2M1FN")  # as StableHLO names them
FREE = tuple(f"stablehlo.{name}" for name in ("convert", "compare", "select", "gather"))


def quantizing(subject: Subject, case: Case) -> Reading:
    """The codes and the scales, rounded to nearest."""

    def program(x: Any) -> Arrays:
        codes, scales = subject.call("quantize_blocks", x, case.values["kind"])
        return {**named(codes, "codes"), **named(scales, "scales")}

    return subject.run(program, case, given(case, "x"))


def multiplying(subject: Subject, case: Case) -> Reading:
    """The product, and its gradients for a given gradient of the output. The operations of this program are
    measured."""

    def program(x: Any, kernel: Any, dy: Any) -> Arrays:
        def multiply(x: Any, kernel: Any) -> Any:
            y = subject.call("block_matmul", x, kernel, case.values["kind"])
            if getattr(y, "shape", None) != dy.shape or y.dtype != dy.dtype:
                raise BadOutputError(f"`block_matmul` must return a float32 array of shape {dy.shape}")
            return y

        y, gradients = jax.vjp(multiply, x, kernel)
        dx, dkernel = gradients(dy)
        return {**named(y, "y"), **named({"x": dx, "kernel": dkernel}, "gradient")}

    return subject.run(program, case, *(given(case, key) for key in ("x", "kernel", "dy")))


def bounding(subject: Subject, case: Case) -> Reading:
    """The error bound."""

    def program(x: Any, kernel: Any) -> Arrays:
        return named(subject.call("error_bound", x, kernel, case.values["kind"]), "bound")

    return subject.run(program, case, given(case, "x"), given(case, "kernel"))


def drawing(subject: Subject, case: Case) -> Reading:
    """What the codes of many draws stand for: the least and the largest number (`reached`), how far their mean is from
    x, in steps (`bias`), and the standard deviations of the sums of a block's numbers and of all, in steps
    (`deviation`)."""

    def program(x: Any) -> Arrays:
        def draw(key: Any) -> Any:
            codes, scales = subject.call("quantize_blocks", x, case.values["kind"], key)
            if jnp.shape(codes) != x.shape or jnp.shape(scales) != (*x.shape[:-1], x.shape[-1] // BLOCK):
                raise BadOutputError("`quantize_blocks` must return a code for each number and a scale for each block")
            return jnp.repeat(scales.astype(jnp.float32), BLOCK, axis=-1) * codes.astype(jnp.float32)

        drawn = jax.vmap(draw)(jax.random.split(jax.random.key(case.values["seed"]), DRAWS))
        least, largest = drawn.min(axis=0), drawn.max(axis=0)
        step = jnp.where(largest > least, largest - least, 1)
        off = (drawn - x) / step
        sums = off.reshape(DRAWS, -1, BLOCK).sum(axis=-1)
        return {
            "reached.least": least, "reached.largest": largest, "bias": off.mean(axis=0),
            "deviation.blocks": sums.std(axis=0), "deviation.all": sums.sum(axis=1).std(),
        }  # fmt: skip

    return subject.run(program, case, given(case, "x"))


def products(execution: Execution) -> dict[str, Any]:
    """Whether products of two operands of 8 bits or less with a float32 result multiply all 3 * T * D * F pairs of
    codes (`small`), and whether other arithmetic takes 3 * T * D * F / 2 operations or more (`other`).

    One product of floats takes 2 * T * D * F. To make codes and scales and to add up blocks takes half as many or less
    in the case that is measured. Casts, comparisons and look-ups do not count: a program may search for codes in a
    table.
    """
    (T, D), F = np.shape(execution.case.values["x"]), np.shape(execution.case.values["dy"])[1]
    small = other = 0
    for run, total in execution.costs:
        operation = run.operation
        if (
            operation.name == "stablehlo.dot_general"
            and all(dtype in SMALL for dtype in stablehlo.dtypes(operation.operands))
            and stablehlo.dtypes(operation.results) == ["f32"]
        ):
            small += total
        elif operation.name not in FREE:
            other += total
    return {"small": np.int32(small >= 6 * T * D * F), "other": np.int32(2 * other >= 3 * T * D * F)}


PROBES = {"quantizing": quantizing, "multiplying": multiplying, "bounding": bounding, "drawing": drawing}
MEASURES = {"products": products}
