"""Probes of problem 45: a quantized kernel, a product and its error bound. Run in workers."""

import math
from typing import Any

import numpy as np

from grader.problem import Case
from grader.worker import stablehlo, work
from grader.worker.measures import Compiled
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import given

# Operations that move numbers, choose among them or name them, and the control flow around operations.
FREE = frozenset(
    "constant iota reshape broadcast_in_dim transpose reverse slice dynamic_slice dynamic_update_slice concatenate pad gather "
    "select compare convert bitcast_convert optimization_barrier while case if func.call composite".split()
)


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


def products(compiled: Compiled, case: Case) -> dict[str, Any]:
    """Whether products of two int8 operands with an int32 result multiply all T * D * F pairs of codes (`int8`), and whether all
    other arithmetic takes at least half as many operations (`other`).

    A product of T * D * F pairs has at least as many terms to add, in whatever operations it is written. Quantizing x and scaling
    the sums takes a few operations for each number of x and of the result, and a tenth of T * D * F in all.
    """
    (T, D), F = np.shape(case.values["x"]), np.shape(case.values["scale"])[0]  # type: ignore[misc]
    multiplied, others = work.total(compiled.parsed, _int8_pairs), work.total(compiled.parsed, _other_operations)
    return {"int8": np.int32(multiplied >= T * D * F), "other": np.int32(others >= T * D * F / 2)}


def _int8_pairs(operation: Any) -> int:
    """The pairs of int8 numbers that an operation multiplies and adds in int32."""
    pairs = work.pairs(operation)
    kinds = stablehlo.dtypes([*operation.operands, operation.results[0]]) if pairs else []
    return pairs if kinds == ["i8", "i8", "i32"] else 0


def _other_operations(operation: Any) -> int:
    """The operations on numbers of any other kind. A number of 64 bits counts as four: it may hold two of 32."""
    if operation.name.removeprefix("stablehlo.") in FREE or _int8_pairs(operation):
        return 0
    arrays = [*operation.operands, *operation.results]
    largest = max((math.prod(stablehlo.shape(array)) for array in arrays), default=0)
    wide = any(kind in ("i64", "ui64", "f64") or kind.startswith("complex") for kind in stablehlo.dtypes(arrays))
    return max(largest, work.pairs(operation)) * (4 if wide else 1)


PROBES = {"quantizing": quantizing, "multiplying": multiplying, "bounding": bounding}
MEASURES = {"products": products}
