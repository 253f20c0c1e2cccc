"""Counts the multiplications that a program does when it runs: loops as often as they turn, branches as they are taken.

XLA counts the body of a loop once if it cannot tell how often it turns. Here the integers of the program are computed, so a
loop whose bound is the counter of an outer loop is counted exactly.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grader.worker import stablehlo
from grader.worker.stablehlo import ir

LARGEST = 1 << 12  # elements of an integer array that is computed
MOST_STEPS = 1 << 20  # operations that are looked at; a run of this course's programs takes a few thousand
UNKNOWN = 1 << 62  # the count of a program whose loops depend on numbers that are not known here

Array = Any  # of NumPy; None stands for numbers that are not known
Values = dict[int, Array]
Cost = Callable[[Any], int]  # of one operation


class UnknownError(Exception):
    """The turns of a loop or the choice of a branch depend on more than integers of the program."""


@dataclass(frozen=True, eq=False)
class Step:
    """One operation: the numbers of the values that it takes and gives, and what it does to them."""

    takes: tuple[int, ...]
    gives: tuple[int, ...]
    compute: Callable[[list[Array]], Array] | None = None
    control: str = ""
    blocks: tuple["Block", ...] = ()
    callee: str = ""
    cost: int = 0


@dataclass(frozen=True, eq=False)
class Block:
    """A list of steps. `cost` is that of those that are not control flow."""

    arguments: tuple[int, ...]
    steps: Sequence[Step]
    returns: tuple[int, ...]
    cost: int


@dataclass
class Count:
    """A run of a module's functions: its `cost` so far."""

    functions: Mapping[str, Block]
    cost: int = 0
    steps: int = field(default=0)

    def run(self, block: Block, arguments: Sequence[Array], values: Values) -> list[Array]:
        """Runs a block with these arguments. `values` are those of the enclosing blocks."""
        values.update(zip(block.arguments, arguments, strict=True))
        self.cost += block.cost
        self.steps += 1 + len(block.steps)
        if self.steps > MOST_STEPS:
            raise UnknownError
        for step in block.steps:
            taken = [values.get(number) for number in step.takes]
            if step.control:
                results = self._control(step, taken, values)
                values.update(zip(step.gives, results, strict=True))
            elif step.compute:
                values[step.gives[0]] = None if any(value is None for value in taken) else step.compute(taken)
        return [values.get(number) for number in block.returns]

    def _control(self, step: Step, taken: list[Array], values: Values) -> list[Array]:
        if step.control == "barrier":
            return taken
        if step.control == "call":
            return self.run(self.functions[step.callee], taken, {})
        if step.control == "while":
            condition, body = step.blocks
            if not _does_work(step, self.functions):
                return [None] * len(step.gives)
            while _known(self.run(condition, taken, values)[0]):
                taken = self.run(body, taken, values)
            return taken
        if not _does_work(step, self.functions) and taken[0] is None:
            return [None] * len(step.gives)
        chosen = int(_known(taken[0]))
        if step.control == "if":
            chosen = 1 - chosen
        return self.run(step.blocks[min(max(chosen, 0), len(step.blocks) - 1)], [], values)


def multiplications(module: Any) -> int:
    """The floating-point multiplications and divisions of one run of a parsed module, those in matrix products included."""
    return total(module, _multiplications)


def total(module: Any, cost: Cost) -> int:
    """The sum of the costs of the operations of one run of a parsed module; UNKNOWN if it cannot be known."""
    symbols = {}
    for operation in module.body.operations:
        if operation.operation.name == "func.func":
            numbers: dict[Any, int] = {}
            symbols[_text(operation.attributes["sym_name"])] = _block(operation.regions[0].blocks[0], numbers, cost)
    count = Count(symbols)
    main = symbols["main"]
    try:
        count.run(main, [None] * len(main.arguments), {})
    except UnknownError:
        return UNKNOWN
    return count.cost


def _known(value: Array) -> Array:
    if value is None:
        raise UnknownError
    return value


def _does_work(step: Step, functions: Mapping[str, Block]) -> bool:
    """Whether a step costs anything. If not, its turns need not be known."""
    return any(
        block.cost or any(_does_work(inner, functions) for inner in block.steps if inner.control)
        for block in (*step.blocks, *((functions[step.callee],) if step.callee else ()))
    )


def _block(block: Any, numbers: dict[Any, int], cost_of: Cost) -> Block:
    arguments = tuple(numbers.setdefault(value, len(numbers)) for value in block.arguments)
    steps, cost, returns = list[Step](), 0, tuple[int, ...]()
    for view in block.operations:
        operation = view.operation
        takes = tuple(numbers.setdefault(value, len(numbers)) for value in operation.operands)
        if operation.name in ("stablehlo.return", "func.return"):
            returns = takes
            break
        gives = tuple(numbers.setdefault(value, len(numbers)) for value in operation.results)
        cost += cost_of(operation)
        kind = operation.name.partition(".")[2]
        if kind in ("while", "case", "if"):
            blocks = tuple(_block(region.blocks[0], numbers, cost_of) for region in operation.regions)
            steps.append(Step(takes, gives, control=kind, blocks=blocks))
        elif kind in ("call", "composite"):
            callee = _text(operation.attributes["callee" if kind == "call" else "decomposition"])
            steps.append(Step(takes, gives, control="call", callee=callee))
        elif kind == "optimization_barrier":
            steps.append(Step(takes, gives, control="barrier"))
        elif compute := _computing(operation, kind):
            steps.append(Step(takes, gives, compute))
    return Block(arguments, steps, returns, cost)


def _multiplications(operation: Any) -> int:
    """The multiplications of one operation."""
    if operation.name in ("stablehlo.multiply", "stablehlo.divide") and not _is_integer(operation.results[0]):
        return math.prod(stablehlo.shape(operation.results[0]))
    return pairs(operation)


def pairs(operation: Any) -> int:
    """The pairs of numbers that a matrix product or a convolution multiplies; 0 for other operations."""
    name = operation.name.removeprefix("stablehlo.")
    if name == "dot_general":
        left, right, result = (stablehlo.shape(v) for v in (*operation.operands, operation.results[0]))
        batch = math.prod(result[: stablehlo.batch_axes(operation)])
        # Every axis is in both operands and the result (a batch), in one operand and the result, or in both operands only.
        contracted = math.isqrt(math.prod(left) * math.prod(right) // max(1, math.prod(result)) // max(1, batch))
        return math.prod(result) * contracted
    if name == "convolution":
        left, right = (stablehlo.shape(value) for value in operation.operands)
        return math.prod(stablehlo.shape(operation.results[0])) * math.prod(right)
    return 0


def _is_integer(value: Any) -> bool:
    return isinstance(ir.RankedTensorType(value.type).element_type, ir.IntegerType)


def _text(attribute: Any) -> str:
    return str(attribute).strip('@"')


def _numbers(attribute: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in attribute)


def _truncated(a: Array, b: Array) -> Array:
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1))).astype(np.asarray(a).dtype)


_PLAIN: Mapping[str, Callable[..., Array]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": _truncated, "remainder": np.fmod,
    "negate": np.negative, "abs": np.abs, "sign": np.sign, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "select": np.where,
    "clamp": lambda low, x, high: np.clip(x, low, high),
}  # fmt: skip
_COMPARE = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


def _computing(operation: Any, kind: str) -> Callable[[list[Array]], Array] | None:
    """What an operation does to integers and truth values; None if it is not needed to know how often loops turn."""
    if len(operation.results) != 1 or not all(map(_is_small, [*operation.operands, operation.results[0]])):
        return None
    shape, attributes = stablehlo.shape(operation.results[0]), operation.attributes
    dtype = _dtype(operation.results[0])
    if kind in _PLAIN:
        return lambda taken: np.asarray(_PLAIN[kind](*taken)).astype(dtype)
    match kind:
        case "constant":
            value = np.array(ir.DenseElementsAttr(attributes["value"])).astype(dtype).reshape(shape)
            return lambda taken: value
        case "iota":
            axis = int(ir.IntegerAttr(attributes["iota_dimension"]).value)
            row = np.arange(shape[axis], dtype=dtype).reshape([-1 if i == axis else 1 for i in range(len(shape))])
            return lambda taken: np.broadcast_to(row, shape)
        case "compare":
            function = _COMPARE[str(attributes["comparison_direction"]).split()[-1].rstrip(">")]
            return lambda taken: function(*taken)
        case "convert":
            return lambda taken: taken[0].astype(dtype)
        case "reshape":
            return lambda taken: taken[0].reshape(shape)
        case "broadcast_in_dim":
            axes = _numbers(ir.DenseI64ArrayAttr(attributes["broadcast_dimensions"]))
            return lambda taken: np.broadcast_to(
                taken[0].reshape([taken[0].shape[axes.index(i)] if i in axes else 1 for i in range(len(shape))]), shape
            )
        case "transpose":
            order = _numbers(ir.DenseI64ArrayAttr(attributes["permutation"]))
            return lambda taken: taken[0].transpose(order)
        case "slice":
            starts, limits, strides = (
                _numbers(ir.DenseI64ArrayAttr(attributes[name]))
                for name in ("start_indices", "limit_indices", "strides")
            )
            cut = tuple(map(slice, starts, limits, strides))
            return lambda taken: taken[0][cut]
        case "concatenate":
            axis = int(ir.IntegerAttr(attributes["dimension"]).value)
            return lambda taken: np.concatenate(taken, axis)
        case "dynamic_slice":
            return lambda taken: taken[0][_window(taken[0].shape, shape, taken[1:])]
        case "dynamic_update_slice":
            return _updated
    return None


def _window(whole: tuple[int, ...], part: tuple[int, ...], starts: Sequence[Array]) -> tuple[slice, ...]:
    """The slices of a window of shape `part`, which is moved inside if it hangs over."""
    inside = [min(max(int(start), 0), n - size) for start, n, size in zip(starts, whole, part, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(inside, part, strict=True))


def _updated(taken: list[Array]) -> Array:
    result = np.array(taken[0])
    result[_window(result.shape, taken[1].shape, taken[2:])] = taken[1]
    return result


def _is_small(value: Any) -> bool:
    return _is_integer(value) and math.prod(stablehlo.shape(value)) <= LARGEST


def _dtype(value: Any) -> Any:
    kind = ir.IntegerType(ir.RankedTensorType(value.type).element_type)
    return (
        np.dtype(bool) if kind.width == 1 else np.dtype(f"{'u' if kind.is_unsigned else 'i'}{max(kind.width // 8, 1)}")
    )
