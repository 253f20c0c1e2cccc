"""Probes of problem 45: a quantized kernel, a product and its error bound. Run in workers."""

from typing import Any

import numpy as np

from grader.authoring import Arrays, Execution, Reading, Subject, given, named, stablehlo
from grader.problem import Case


def quantizing(subject: Subject, case: Case) -> Reading:
    """The codes and the scale of each column."""

    def program(kernel: Any) -> Arrays:
        codes, scale = subject.call("quantize", kernel)
        return {**named(codes, "codes"), **named(scale, "scale")}

    return subject.run(program, case, given(case, "kernel"))


def multiplying(subject: Subject, case: Case) -> Reading:
    """The product. The operations of this program are measured."""
    return _called(subject, case, "int8_matmul", "y")


def bounding(subject: Subject, case: Case) -> Reading:
    """The error bound."""
    return _called(subject, case, "error_bound", "bound")


def _called(subject: Subject, case: Case, entry: str, name: str) -> Reading:
    def program(*arrays: Any) -> Arrays:
        return named(subject.call(entry, *arrays), name)

    return subject.run(program, case, *(given(case, key) for key in ("x", "codes", "scale")))


def products(execution: Execution) -> dict[str, Any]:
    """Whether products of two int8 operands with an int32 result multiply all T * D * F pairs of codes (`int8`), and
    whether all other arithmetic takes a quarter of T * D * F operations or more (`other`).

    A product takes T * D * F multiplications and almost as many additions, in whatever operations it is written.
    Quantizing x and scaling the sums take a few operations for each number of x and of the result, and a tenth of T * D
    * F in all.
    """
    (T, D), F = np.shape(execution.case.values["x"]), np.shape(execution.case.values["scale"])[0]
    int8 = other = 0
    for run, total in execution.costs:
        if run.operation.name in ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution") and (
            stablehlo.dtypes([*run.operation.operands, run.operation.results[0]]) == ["i8", "i8", "i32"]
        ):
            int8 += total
        else:
            other += total
    return {"int8": np.int32(int8 >= 2 * T * D * F), "other": np.int32(4 * other >= T * D * F)}


PROBES = {"quantizing": quantizing, "multiplying": multiplying, "bounding": bounding}
MEASURES = {"products": products}
