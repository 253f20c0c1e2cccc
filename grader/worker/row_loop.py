"""Proves that a program is a loop over the rows of an array: iteration t reads row t, and writes row t of each output.

`decode_loop.py` composes such a loop in the submission's process. This module checks the program itself, so that no
step can see the rows of others, whatever that process has sent.
"""

from collections.abc import Mapping
from typing import Any

from grader.worker import counting, stablehlo

READ, WRITE = "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
COUNTER = 4  # bytes; with fewer, a counter soon begins again below 0
Bound = Mapping[Any, Any]  # arguments of functions, and the values that they are called with


class OutOfOrderError(Exception):
    """The program is not such a loop."""


def check(module: Any, numbers: list[int]) -> None:
    """Raises OutOfOrderError unless a parsed program takes each of these parameters row by row, all in one loop.

    The program may also return them: JAX does so where a loop only passes on the rows of an array. The loop must also
    write its results row by row: otherwise an array of results could hold state that a step must not keep. And the
    program must return these results without computing with them: otherwise a loop could copy all rows for a later
    step.
    """
    main, functions = stablehlo.functions(module)["main"].regions[0].blocks[0], stablehlo.functions(module)
    uses = []
    for use in (use for number in numbers for use in main.arguments[number].uses):
        if use.owner.name == counting.LOOP:
            uses.append(use)
        else:
            _check_use(use)
    if len({use.owner for use in uses}) != 1:
        raise OutOfOrderError
    loop = _Loop(uses[0].owner, functions)
    for use in uses:
        loop.check_read(use.operand_number)
    for number, result in enumerate(loop.operation.results):
        if list(result.uses):
            loop.check_written(number)
            _check_returned(result)


def _check_returned(value: Any) -> None:
    """Raises OutOfOrderError unless a value, or parts of it in another shape, are used for nothing but the program's
    outputs."""
    for use in value.uses:
        _check_use(use)


def _check_use(use: Any) -> None:
    """Raises OutOfOrderError unless a use of a value returns it, or takes or rearranges parts of it that are
    returned."""
    if use.owner.name == "func.return":
        return
    if use.owner.name not in (*stablehlo.REARRANGING, READ) or (use.owner.name == READ and use.operand_number):
        raise OutOfOrderError
    for result in use.owner.results:
        _check_returned(result)


class _Loop:
    """A `while` loop whose counter begins at 0 and grows by 1 each iteration."""

    def __init__(self, operation: Any, functions: Mapping[str, Any]) -> None:
        self.operation = getattr(operation, "operation", operation)
        self.functions = functions
        self.conditions, self.arguments = (list(region.blocks[0].arguments) for region in self.operation.regions)
        self.end = stablehlo.end(self.operation.regions[1].blocks[0])
        self.returned = list(self.end.operands)

    def check_read(self, number: int) -> None:
        """Raises OutOfOrderError unless the loop passes on the array that enters at place `number` unchanged, and uses
        nothing but its rows."""
        array = self.arguments[number]
        if list(self.operation.results[number].uses) or list(self.conditions[number].uses):
            raise OutOfOrderError
        if self.returned[number] != array:
            raise OutOfOrderError
        self._check_rows(array, {})

    def check_written(self, number: int) -> None:
        """Raises OutOfOrderError unless the array that leaves at place `number` has one new row after each iteration,
        and is used for nothing else."""
        array, new, bound = self.arguments[number], self.returned[number], dict[Any, Any]()
        uses = list(array.uses)
        if len(uses) != 1 or list(self.conditions[number].uses):
            raise OutOfOrderError
        callee = stablehlo.callee(new.owner) if not stablehlo.is_argument(new) else None
        if callee:
            block, call = self.functions[callee].regions[0].blocks[0], new.owner
            bound = dict(zip(block.arguments, call.operands, strict=True))
            new = stablehlo.end(block).operands[_place(call.results, new)]
            inside = [inner for inner, outer in bound.items() if outer == array]
            if len(inside) != 1 or len(list(inside[0].uses)) != 1:
                raise OutOfOrderError
            array = inside[0]
        if stablehlo.is_argument(new) or new.owner.name != WRITE:
            raise OutOfOrderError
        old, update, *starts = new.owner.operands
        if old != array or not self._is_row(stablehlo.shape(update), stablehlo.shape(old), starts, bound):
            raise OutOfOrderError

    def _check_rows(self, array: Any, bound: Bound) -> None:
        for use in array.uses:
            operation = use.owner
            if callee := stablehlo.callee(operation):
                block = self.functions[callee].regions[0].blocks[0]
                given = {
                    inner: bound.get(outer, outer)
                    for inner, outer in zip(block.arguments, operation.operands, strict=True)
                }
                self._check_rows(block.arguments[use.operand_number], given)
            elif operation.name == READ and use.operand_number == 0:
                taken, whole = stablehlo.shape(operation.results[0]), stablehlo.shape(array)
                if not self._is_row(taken, whole, list(operation.operands)[1:], bound):
                    raise OutOfOrderError
            elif not self._passes_on(use, array):
                raise OutOfOrderError

    def _passes_on(self, use: Any, array: Any) -> bool:
        """Returns whether a use of an array passes it to the next iteration at the same place.

        A branch that returns the array, or another place in the loop, would give all its rows to a step.
        """
        return bool(use.owner.operation == self.end and self.arguments[use.operand_number] == array)

    def _is_row(self, part: tuple[int, ...], whole: tuple[int, ...], starts: list[Any], bound: Bound) -> bool:
        """Returns whether a part of an array, which begins at `starts`, is the row of this iteration."""
        return part == (1, *whole[1:]) and self._is_counter(starts[0], bound)

    def _is_counter(self, value: Any, bound: Bound) -> bool:
        """Returns whether a value is the number of iterations before this one."""
        value = bound.get(value, value)
        if not stablehlo.is_argument(value) and value.owner.name == "stablehlo.select":
            # JAX adds the length of the array to an index below 0, which the counter never is.
            below, _, value = value.owner.operands
            return self._is_counter(value, bound) and stablehlo.is_below_0(below, value)
        if value not in self.arguments:
            return False
        number = _place(self.arguments, value)
        new = self.returned[number]
        if stablehlo.is_argument(new) or new.owner.name != "stablehlo.add":
            return False
        left, right = new.owner.operands
        return (
            left == value
            and stablehlo.tensor_bytes(value) >= COUNTER
            and stablehlo.is_constant(right, 1)
            and stablehlo.is_constant(self.operation.operands[number], 0)
        )


def _place(values: Any, value: Any) -> int:
    return next(number for number, each in enumerate(values) if each == value)
