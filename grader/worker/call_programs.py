"""The programs that a traced function runs without a jit around all of it, each compiled alone.

A trace merges everything that a function does into one program, and XLA propagates shardings through all of it, even
from its end back to its start. Without the trace, each jitted function is a program of its own, and so is each
operation between them. A later program cannot place the arrays that an earlier one creates. These stages are the
operations of `main`: calls of jitted functions, and others.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.worker import annotations, stablehlo
from grader.worker.measures import Compiled, place
from grader.worker.stablehlo import func, ir

_RESULT = re.compile(r"= \(?\w+\[([\d,]*)\]")  # of an operation in an optimized program


@dataclass(frozen=True, eq=False)
class Array:
    """An array that a stage returns.

    Attributes:
        shape: Its shape.
        part: The shape of its part on each device.
        axes: The mesh axes over which each of its axes is split, as numbers of `grader.checks.PLACES`.
        outputs: The numbers of the whole program's outputs that depend on it.
        returned: The numbers of the whole program's outputs that it is.
    """

    shape: tuple[int, ...]
    part: tuple[int, ...]
    axes: Any  # numbers of `grader.checks.PLACES`
    outputs: frozenset[int]
    returned: frozenset[int]


@dataclass(frozen=True, eq=False)
class Stage:
    """The arrays of one program on each device. `largest` is the size of the largest one, temporary ones included, and
    `held` that of all inputs and outputs, in elements. `made` counts all outputs and temporary arrays, in bytes."""

    arrays: Sequence[Array]
    largest: int
    held: int
    made: int


def stages(compiled: Compiled) -> list[Stage]:
    """Returns the stages of a program on several devices, in order.

    Leaves out operations on fewer elements than there are devices, because nobody splits these. A call is never left
    out: its function may hold more than it takes and returns.
    """
    parsed, devices = compiled.parsed, compiled.devices
    block = stablehlo.main_block(parsed)
    *operations, last = (view.operation for view in block.operations)
    values = {*block.arguments, *(value for operation in operations for value in operation.results)}
    taken = [_taken(operation, values) for operation in operations]
    returned = {value: frozenset(n for n, one in enumerate(last.operands) if one == value) for value in values}
    outputs = _outputs(operations, taken, returned)
    known: dict[Any, Array] = {}
    found = []
    for operation, takes in zip(operations, taken, strict=True):
        if _is_small(operation, len(devices)):
            continue
        placed = [known[value].axes if value in known else [0] * len(stablehlo.shape(value)) for value in takes]
        executable = stablehlo.compiled(_alone(parsed, operation, takes, placed, compiled.mesh), devices)
        shardings = stablehlo.shardings(executable.get_output_shardings() or [], devices)
        for value, sharding in zip(operation.results, shardings, strict=True):
            shape = stablehlo.shape(value)
            part, axes = tuple(sharding.shard_shape(shape)), place(shape, sharding, compiled)
            known[value] = Array(shape, part, axes, outputs[value], returned[value])
        arrays = [known[value] for value in operation.results]
        found.append(_stage(executable, arrays, [known[value] for value in takes if value in known]))
    return found


def _outputs(
    operations: Sequence[Any], taken: Sequence[Sequence[Any]], returned: Mapping[Any, frozenset[int]]
) -> dict[Any, frozenset[int]]:
    """Returns by value the numbers of the program's outputs that depend on it.

    `taken` are the values that each operation takes, and `returned` are the numbers of the outputs that a value is.
    """
    outputs = dict(returned)
    for operation, takes in zip(reversed(operations), reversed(taken), strict=True):
        later = frozenset[int]().union(*(outputs[value] for value in operation.results))
        outputs |= {value: outputs[value] | later for value in takes}
    return outputs


def _stage(executable: Any, arrays: Sequence[Array], taken: Sequence[Array]) -> Stage:
    """Measures a compiled program that takes `taken` and returns `arrays`."""
    text = str(executable.hlo_modules()[0].to_string())
    largest = max(math.prod(int(n) for n in sizes.split(",") if n) for sizes in _RESULT.findall(text))
    held = sum(math.prod(array.part) for array in [*arrays, *taken])
    memory = executable.get_compiled_memory_stats()
    return Stage(arrays, largest, held, memory.output_size_in_bytes + memory.temp_size_in_bytes)


def _is_small(operation: Any, devices: int) -> bool:
    values = [*operation.operands, *operation.results]
    inner = stablehlo.callee(operation) or list(operation.regions)
    return not inner and all(math.prod(stablehlo.shape(value)) < devices for value in values)


def _taken(operation: Any, values: set[Any]) -> list[Any]:
    """Returns those of `values` that an operation takes, or that its regions use."""
    operands = [value for one in (operation, *stablehlo.inside(operation)) for value in one.operands]
    return list(dict.fromkeys(value for value in operands if value in values))


def _alone(parsed: Any, operation: Any, takes: Sequence[Any], placed: Sequence[Any], mesh: Sequence[int]) -> bytes:
    """Returns a program of only one operation of `main`. Its inputs are split over the mesh axes in `placed`."""
    with parsed.context, ir.Location.unknown():
        module = ir.Module.create()
        for name in parsed.operation.attributes:
            module.operation.attributes[name] = parsed.operation.attributes[name]
        main = stablehlo.main_block(parsed).owner
        with ir.InsertionPoint(module.body):
            for view in parsed.body.operations:
                if view.operation != main:
                    view.operation.clone()
            kinds = [value.type for value in takes], [value.type for value in operation.results]
            program: Any = func.FuncOp("main", kinds)
        for name, named in stablehlo.meshes(parsed).items():
            if [size for _, size in named] == list(mesh):
                said = [_sharding(name, [axis for axis, _ in named], axes) for axes in placed]
                program.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get({"sdy.sharding": one}) for one in said])
        block = program.add_entry_block()
        arguments = dict(zip(takes, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            copy = operation.clone()
            for one in (copy, *stablehlo.inside(copy)):
                for number, value in enumerate(one.operands):
                    if value in arguments:
                        one.operands[number] = arguments[value]
            func.ReturnOp(list(copy.results))
        annotations.strip(module)
        module.operation.verify()
        return stablehlo.serialized(module)


def _sharding(mesh: str, names: Sequence[str], axes: Any) -> Any:
    splits = [[f'"{name}"' for n, name in enumerate(names) if code >> n & 1 and code > 0] for code in map(int, axes)]
    return ir.Attribute.parse(
        f"#sdy.sharding<@{mesh}, [{', '.join('{' + ', '.join(split) + '}' for split in splits)}]>"
    )
