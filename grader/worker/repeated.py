"""A program that a witness runs again and again, and the scalar operations of all its runs."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from grader.worker import cost, counting, stablehlo
from grader.worker.counting import UncountableError
from grader.worker.measures import Compiled
from grader.worker.witness import RefusedProgramError

PRODUCT = "stablehlo.dot_general"


class Repeated:
    """A compiled program, and `work`: the scalar operations of all its runs by piece.

    A piece is a matrix product, by the shapes of its operands, or one of the kinds `elementwise` and `computed places`.
    Where a program has loops or branches, what runs is the program with counters in them, each time: a step that does
    more than the one before costs more.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.work = Counter[str]()
        self._costs: dict[bytes, Counter[str]] = {}

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
            self.work.update(self._cost(counters))
        return dict(zip(program.outputs, outputs, strict=False))

    @property
    def total(self) -> int:
        """The scalar operations of all runs."""
        return self.work.total()

    def _cost(self, counters: Any) -> Counter[str]:
        key = counters.tobytes()
        if key not in self._costs:
            functions, found = stablehlo.functions(self.compiled.parsed), Counter[str]()
            for run in counting.runs(self.compiled.parsed, counters):
                if total := run.times * cost.cost(run.operation, functions):
                    found[_piece(run.operation)] += total
            self._costs[key] = found
        return self._costs[key]


def _piece(operation: Any) -> str:
    if operation.name == PRODUCT:
        return "product " + " · ".join("×".join(map(str, stablehlo.shape(value))) for value in operation.operands)
    name = operation.name.partition(".")[2]
    return "computed places" if name in (*cost.COMPUTED_PLACES, "scatter", "sort") else "elementwise"
