"""Whether a program is a loop over the rows of an array: turn t takes row t, and writes row t of what it returns.

`decode_loop.py` composes such a loop in the submission's process. This module reads in the program that it is one, so a
step cannot see the rows of others, whatever that process has sent.
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

    It may also return them: JAX does so where a loop would only pass on the rows of one. What leaves that loop must be
    written row by row, too: otherwise an array of results could hold what a step must not keep. And the program must
    return it, not compute with it: otherwise a loop could copy all rows for a step that comes after it.
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
    """Raises unless one use of a value is as the callers require."""
    if use.owner.name == "func.return":
        return
    if use.owner.name not in (*stablehlo.REARRANGING, READ) or (use.owner.name == READ and use.operand_number):
        raise OutOfOrderError
    for result in use.owner.results:
        _check_returned(result)


class _Loop:
    """A `while`, whose counter begins at 0 and grows by 1 each turn."""

    def __init__(self, operation: Any, functions: Mapping[str, Any]) -> None:
        self.operation = getattr(operation, "operation", operation)
        self.functions = functions
        self.conditions, self.arguments = (list(region.blocks[0].arguments) for region in self.operation.regions)
        self.end = stablehlo.end(self.operation.regions[1].blocks[0])
        self.returned = list(self.end.operands)

    def check_read(self, number: int) -> None:
        """An array that enters the loop at a place is passed on as it is, and used for nothing but its rows."""
        array = self.arguments[number]
        if list(self.operation.results[number].uses) or list(self.conditions[number].uses):
            raise OutOfOrderError
        if self.returned[number] != array:
            raise OutOfOrderError
        self._check_rows(array, {})

    def check_written(self, number: int) -> None:
        """An array that leaves the loop from a place has one new row after each turn, and is used for nothing else."""
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
        """Whether a use of an array is that the next turn gets it at the same place. A branch that returns it, or
        another place, would give all its rows to a step."""
        return bool(use.owner.operation == self.end and self.arguments[use.operand_number] == array)

    def _is_row(self, part: tuple[int, ...], whole: tuple[int, ...], starts: list[Any], bound: Bound) -> bool:
        """Whether a part of an array, from these starts on, is the row of this turn."""
        return part == (1, *whole[1:]) and self._is_counter(starts[0], bound)

    def _is_counter(self, value: Any, bound: Bound) -> bool:
        """Whether a value is the number of turns before this one."""
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
