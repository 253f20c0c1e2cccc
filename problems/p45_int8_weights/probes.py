"""Probes of problem 45: a quantized kernel, a product and its error bound. Run in workers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.problem import Case
from grader.worker import stablehlo
from grader.worker.measures import Compiled
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import given


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
    """Whether the program has products of two int8 operands with an int32 result (`int8`), and any others (`other`).

    A product can also be written as multiplications and a sum. They multiply T * D * F pairs of numbers, the scales far fewer.
    """
    (T, D), F = np.shape(case.values["x"]), np.shape(case.values["scale"])[0]  # type: ignore[misc]
    found = {"int8": 0, "other": 0}
    multiplied = 0
    for operation, depth in _with_depth(compiled.parsed):
        if operation.name in ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution"):
            kinds = stablehlo.dtypes([*operation.operands, operation.results[0]])
            found["int8" if kinds == ["i8", "i8", "i32"] else "other"] = 1
        if operation.name == "stablehlo.multiply":
            # The number of turns of a loop is at most about F, the largest of the sizes.
            multiplied += int(np.prod(stablehlo.shape(operation.results[0]))) * F**depth
    if multiplied >= T * D * F:
        found["other"] = 1
    return {name: np.int32(flag) for name, flag in found.items()}


def _with_depth(module: Any) -> Iterator[tuple[Any, int]]:
    """Every operation that the program runs, and the number of loops around it. A function counts where it is called."""
    functions = {op.attributes["sym_name"].value: op for op in module.body.operations if "sym_name" in op.attributes}

    def inside(operation: Any, depth: int) -> Iterator[tuple[Any, int]]:
        for inner in (
            op.operation for region in operation.regions for block in region.blocks for op in block.operations
        ):
            yield inner, depth
            yield from inside(inner, depth + (inner.name == "stablehlo.while"))
            if inner.name == "func.call":
                yield from inside(functions[inner.attributes["callee"].value].operation, depth)

    yield from inside(functions["main"].operation, 0)


PROBES = {"quantizing": quantizing, "multiplying": multiplying, "bounding": bounding}
MEASURES = {"products": products}
