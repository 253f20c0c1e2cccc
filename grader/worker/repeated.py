"""A program that a witness runs again and again, and the scalar operations of all its runs.

What is looked up at a computed place, written there, or sorted, counts as the product with a one-hot vector that does
the same: 2 N for each number, with N places. Otherwise a table of counts would beat every model that computes.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.worker import cost, counting, stablehlo
from grader.worker.counting import UncountableError
from grader.worker.measures import Compiled
from grader.worker.witness import RefusedProgramError

PRODUCT = "stablehlo.dot_general"
_FUSED = {*cost.BY_ELEMENT, *cost.MOVES} - {"concatenate", "pad", "reverse", "slice"}  # all others read their operands


class Repeated:
    """A compiled program, and `work`: the scalar operations of all its runs by piece.

    A piece is a matrix product or a lookup, by the shapes of its operands, or it is `elementwise`.
    Where a program has loops or branches, what runs is the program with counters in them, each time: a step that does
    more than the one before costs more.

    `bytes_read` are those of the operands of products, sums, sorts and copies. Of what is looked up or written at a
    computed place, only these numbers are read. Operations by element read nothing, as if they were fused with what
    needs their results.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.work = Counter[str]()
        self.bytes_read = 0
        self._costs: dict[bytes, tuple[Counter[str], int]] = {}

    def __call__(self, arrays: Mapping[str, Any], *, counts: bool = True) -> dict[str, Any]:
        """Returns the outputs by name for the inputs by name. The run costs nothing unless it `counts`.

        Raises KeyError if an input is missing, RefusedProgramError if the work cannot be counted.
        """
        try:
            running = self.compiled.counting
        except UncountableError as error:
            raise RefusedProgramError(f"its work cannot be counted: {error}") from error
        program = self.compiled.program
        outputs = running([arrays[item.name] for item in program.inputs])
        if counts:
            counters = np.asarray(outputs[-1]) if running is not self.compiled else np.zeros(0, np.int64)
            work, read = self._cost(counters)
            self.work.update(work)
            self.bytes_read += read
        return dict(zip(program.outputs, outputs, strict=False))

    @property
    def total(self) -> int:
        """The scalar operations of all runs."""
        return self.work.total()

    def _cost(self, counters: Any) -> tuple[Counter[str], int]:
        key = counters.tobytes()
        if key not in self._costs:
            functions, found, read = stablehlo.functions(self.compiled.parsed), Counter[str](), 0
            for run in counting.runs(self.compiled.parsed, counters):
                each = max(cost.cost(run.operation, functions), 2 * _moved(run.operation))
                if total := run.times * each:
                    found[_piece(run.operation)] += total
                read += run.times * _read(run.operation)
            self._costs[key] = found, read
        return self._costs[key]


def _piece(operation: Any) -> str:
    if operation.name != PRODUCT and not _moved(operation):
        return "elementwise"
    what = "product" if operation.name == PRODUCT else operation.name.partition(".")[2].replace("_", " ")
    shapes = ["×".join(map(str, stablehlo.shape(value))) or "1" for value in operation.operands[:2]]
    return f"{what} {' · '.join(shapes)}" if operation.name == PRODUCT else f"{what} {shapes[0]}"


def _read(operation: Any) -> int:
    """Returns the bytes that an operation reads, without those that its body reads."""
    dialect, _, name = operation.name.partition(".")
    if dialect != "stablehlo" or name in _FUSED:
        return 0
    values = list(operation.operands)
    if name in ("gather", "dynamic_slice", "slice"):  # these read a part of an array
        values = [*operation.results, *values[1:]]
    elif name in ("scatter", "dynamic_update_slice"):  # and these write one
        values = values[1:]
    return sum(map(stablehlo.tensor_bytes, values))


def _moved(operation: Any) -> int:
    """Returns the numbers that an operation moves from or to computed places, each times the number of places."""
    sizes = [stablehlo.numbers(value) for value in operation.operands]
    match operation.name:
        case "stablehlo.gather":
            window, batch = stablehlo.gathered_axes(operation)
        case "stablehlo.scatter":
            window, batch = stablehlo.scattered_axes(operation)
        case "stablehlo.dynamic_slice" | "stablehlo.dynamic_update_slice":
            return sizes[0]
        case "stablehlo.sort":
            return sum(sizes) * stablehlo.shape(operation.operands[0])[stablehlo.sorted_axis(operation)]
        case _:
            return 0
    moved = operation.results[0] if operation.name == "stablehlo.gather" else operation.operands[-1]
    return stablehlo.numbers(moved) * (sizes[0] // max(1, window * batch))
