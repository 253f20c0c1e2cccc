"""The measures that a witness takes of a compiled program: memory, operations, dtypes, collectives, donation,
shardings."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from grader.problem import PROGRAM, Case
from grader.wire.program import Program
from grader.worker import cost, counting, stablehlo
from grader.worker.bill import bill
from grader.worker.collectives import FEW, Collective, collectives

SMALL_ONES = 128  # bytes of all small arrays of collectives together: sums of a loss, a count and the like

OwnMeasure = Callable[["Execution"], Any]  # of one problem: MEASURES of its `probes.py`


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled program on its devices.

    Attributes:
        program: The traced program.
        executable: The compiled program.
        devices: The devices.
        mesh: The shape of the mesh on which placements are described.
        parsed: The module as MLIR's Python objects.
    """

    program: Program
    executable: Any
    devices: list[Any]
    mesh: tuple[int, ...]
    parsed: Any  # the program as it was traced

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Returns the outputs, each as one array."""
        if len(self.devices) == 1:
            results = self.executable.execute_sharded([jax.device_put(x, self.devices[0]) for x in arguments])
            return [shards[0] for shards in results.disassemble_into_single_device_arrays()]
        placed = [jax.device_put(x, s) for x, s in zip(arguments, self.shardings("parameter"), strict=True)]
        results = self.executable.execute_sharded(placed)
        outputs = zip(
            self.output_shapes, self.shardings("output"), results.disassemble_into_single_device_arrays(), strict=True
        )
        return [
            jax.make_array_from_single_device_arrays(shape, sharding, shards) for shape, sharding, shards in outputs
        ]

    def shardings(self, which: str) -> list[Any]:
        """Returns the shardings of the parameters or of the outputs (`which`)."""
        if len(self.devices) == 1:
            arrays = self.program.inputs if which == "parameter" else self.program.outputs
            return [jax.sharding.SingleDeviceSharding(self.devices[0])] * len(arrays)
        return stablehlo.shardings(getattr(self.executable, f"get_{which}_shardings")() or [], self.devices)

    @cached_property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the outputs."""
        return stablehlo.result_shapes(self.parsed)

    @cached_property
    def text(self) -> str:
        """The optimized program."""
        return str(self.executable.hlo_modules()[0].to_string())

    @cached_property
    def counting(self) -> "Compiled":
        """The same program, with the counters of its loops and branches as one more output; itself if it has none."""
        if not counting.has_control_flow(self.parsed):
            return self
        module = counting.with_counters(self.program.module)
        return replace(
            self, executable=stablehlo.compiled(module, self.devices), parsed=stablehlo.parsed(module),
            program=replace(self.program, module=module),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Execution:
    """A compiled program, and the arrays on which it is measured.

    Attributes:
        compiled: The compiled program.
        arguments: The arrays that it runs on, in the order of its inputs.
        case: The case that they belong to.
    """

    compiled: Compiled
    arguments: list[Any]
    case: Case

    @cached_property
    def counted(self) -> list[Any]:
        """The outputs of the program with counters, which are the last one. Raises UncountableError."""
        return self.compiled.counting(self.arguments)

    @cached_property
    def counters(self) -> Any:
        """The counters of the program's loops and branches after a run on these arguments. Raises UncountableError."""
        if self.compiled.counting is self.compiled:
            return ()
        shards = self.counted[-1].addressable_shards
        return np.max([np.asarray(shard.data) for shard in shards], axis=0)  # inside a `shard_map`, devices may differ

    @property
    def outputs(self) -> list[Any]:
        """The outputs of the program, from the run with counters if there was one. Raises UncountableError.

        XLA compiles a program with counters in another way, so a program could detect which of the two it is, and save
        work in one of them.
        """
        plain = self.compiled(self.arguments)
        if "counted" not in vars(self):
            return plain
        *counted, _ = self.counted
        if not all(map(_alike, plain, counted)):
            raise counting.UncountableError("with counters in its loops, it returns other numbers")
        return counted

    @cached_property
    def runs(self) -> list[counting.Run]:
        """Every operation of the program, and how often it ran."""
        return list(counting.runs(self.compiled.parsed, self.counters))

    @cached_property
    def costs(self) -> list[tuple[counting.Run, int]]:
        """Every operation of the program that computes, and the scalar operations that it took in all its runs."""
        functions = stablehlo.functions(self.compiled.parsed)
        found = ((run, run.times * cost.cost(run.operation, functions)) for run in self.runs)
        return [(run, total) for run, total in found if total]

    @cached_property
    def collectives(self) -> list[Collective]:
        """Every collective of the program, and how often it ran."""
        rates = counting.rates(self.compiled.parsed, self.counters)
        return collectives(self.compiled.counting.text, len(self.compiled.devices), rates)


def _alike(array: Any, other: Any) -> bool:
    """Returns whether two arrays are equal up to rounding. Integers may differ: rounding can decide which number is the
    largest."""
    if not jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
        return True
    return bool(np.allclose(np.asarray(array), np.asarray(other), rtol=0.01, atol=0.01, equal_nan=True))


def _temporary_bytes(execution: Execution) -> Any:
    """Returns the memory that XLA plans for intermediate results, without arguments and results."""
    return np.int64(execution.compiled.executable.get_compiled_memory_stats().temp_size_in_bytes)


def _operations(execution: Execution) -> Any:
    """Returns the number of operations in the program as it was traced. The body of a loop or of a function counts
    once."""
    return np.int64(sum(1 for _ in stablehlo.operations(execution.compiled.parsed)))


def _products(execution: Execution) -> Any:
    """Returns the number of matrix products in the program as it was traced. The body of a loop or of a function counts
    once."""
    return np.int64(sum(op.name == "stablehlo.dot_general" for op in stablehlo.operations(execution.compiled.parsed)))


def _inlined_operations(execution: Execution) -> Any:
    """Returns the number of operations in the program as XLA compiles it: a function counts in each call, the body of a
    loop once."""
    functions = stablehlo.functions(execution.compiled.parsed)
    sizes: dict[str, int] = {}
    for name in reversed(stablehlo.callers_first(functions)):
        inner = list(stablehlo.inside(functions[name]))
        sizes[name] = sum(sizes[callee] if (callee := stablehlo.callee(each)) else 1 for each in inner)
    return np.int64(sizes["main"])


def work(execution: Execution) -> Any:
    """Returns the scalar operations of one run: loops as often as they turned, branches as they were taken."""
    return np.int64(sum(total for _, total in execution.costs))


def _executed(execution: Execution) -> Any:
    """Returns the operations that compute and that one run executed: loops as often as they turned, branches as they
    were taken."""
    return np.int64(sum(run.times for run, _ in execution.costs))


def _rounds(execution: Execution) -> Any:
    """Returns the operations that a run executes, each as often as it runs. Each is one after another, and works on
    whole arrays.

    Linear algebra takes a product, a sum and a division for each row of a matrix, which needs all rows before it.
    """
    return np.int64(sum(run.times * (3 * cost.rows_in_order(run.operation) or 1) for run in execution.runs))


def _largest_operand(execution: Execution) -> dict[str, Any]:
    """Returns the size of the largest array that the program computes with, in loops and outside of them."""
    module = execution.compiled.parsed
    loops = [each for each in stablehlo.operations(module) if each.name == counting.LOOP]
    looped = {inner for loop in loops for inner in stablehlo.inside(loop)}
    functions = stablehlo.functions(module)
    found = {"in_loops": 0, "outside": 0}
    for each in stablehlo.operations(module):
        if cost.computes_numbers(each, functions):
            place = "in_loops" if each in looped else "outside"
            found[place] = max(found[place], *map(stablehlo.numbers, each.operands))
    return {place: np.int64(size) for place, size in found.items()}


def _largest_array(execution: Execution) -> Any:
    """Returns the size of the largest array that an operation returns in the program as it was traced."""
    results = (value for operation in stablehlo.operations(execution.compiled.parsed) for value in operation.results)
    return np.int64(max(map(stablehlo.numbers, results), default=0))


def _held_bytes(execution: Execution) -> Any:
    """Returns the bytes of the inputs, of constants and of the arrays that collectives produce on each device. A sum
    can gather, too."""
    produced = sum(math.ceil(each.times * each.size) for each in execution.collectives)
    written = 4 * stablehlo.numbers_written(execution.compiled.parsed)
    return _bytes_on_device(execution) + np.int64(produced + written)


def _exchanged_bytes(execution: Execution) -> Any:
    """Returns the bytes that collectives produce on each device, if they join devices at different places along the
    mesh's last axis.

    Adds the bytes of a device's inputs beyond those of its outputs, because a step that takes a whole array and returns
    a part of it needs no collective.
    """
    others = execution.compiled.mesh[-1]
    joining = (each for each in execution.collectives if np.ptp(each.groups % others, axis=1).any())
    more = max(0, int(_bytes_on_device(execution)) - _bytes_left_out(execution))
    return np.int64(sum(math.ceil(each.times * each.size) for each in joining) + more)


def small_ones_count(execution: Execution) -> bool:
    """Returns whether there are too many small arrays to ignore them: a program could send an array number by number,
    or beside others."""
    small = (each.times * size for each in execution.collectives for elements, size in each.arrays if elements <= FEW)
    return sum(small) > SMALL_ONES


def _exchanged(execution: Execution) -> dict[str, Any]:
    """Returns the bytes that collectives produce on each device in one run: by kind, for all collectives that the code
    itself calls, and for all that run more than once.

    A few small arrays do not count. Collectives that the code calls and XLA removes, because nothing needs them, do not
    count either.
    """
    smallest = 0 if small_ones_count(execution) else FEW
    sizes = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "others"), 0)
    written = in_loops = 0
    for each in execution.collectives:
        name = each.kind.replace("-", "_")
        size = sum(size for elements, size in each.arrays if elements > smallest)
        sizes[name if name in sizes else "others"] += math.ceil(each.times * size)
        written += math.ceil(each.times * size) if each.written else 0
        in_loops += math.ceil(each.times * size) if each.times > 1 else 0
    return {key: np.int64(size) for key, size in {**sizes, "written": written, "in_loops": in_loops}.items()}


def _placed(execution: Execution) -> dict[str, Any]:
    """Returns, for each axis of each output, the mesh axes over which it is split, as numbers of
    `grader.checks.PLACES`.

    The placement is determined by which device holds which slice. An input without a placement, in a program on several
    devices, is on one device, also where it is an output.
    """
    compiled = execution.compiled
    said = stablehlo.places_said(compiled.parsed)
    moved = [number < 0 or said[number] for number in stablehlo.handed_through(compiled.parsed)]
    outputs = zip(compiled.program.outputs, compiled.output_shapes, compiled.shardings("output"), moved, strict=True)
    return {
        name: place(shape, sharding, compiled) if sure else np.full(len(shape), -1, np.int32)
        for name, shape, sharding, sure in outputs
    }


def place(shape: tuple[int, ...], sharding: Any, compiled: Compiled) -> Any:
    """Returns, for each axis of an array, the mesh axes over which it is split, as numbers of
    `grader.checks.PLACES`."""
    mesh = compiled.mesh
    if len(compiled.devices) != math.prod(mesh):
        return np.full(len(shape), -1, np.int32)
    where = sharding.devices_indices_map(shape)
    codes = []
    for axis in range(len(shape)):
        starts = np.array([where[device][axis].start or 0 for device in compiled.devices]).reshape(mesh)
        codes.append(sum(1 << number for number in range(len(mesh)) if np.ptp(starts, axis=number).any()))
    return np.array(codes, np.int32)


def _inputs(execution: Execution) -> dict[str, Any]:
    """Returns, for each axis of each input, the mesh axes over which it is split. An input that is taken twice has no
    placement."""
    compiled = execution.compiled
    found: dict[str, Any] = {}
    for item, sharding in zip(compiled.program.inputs, compiled.shardings("parameter"), strict=True):
        taken = item.name in found
        found[item.name] = np.full(len(item.shape), -1, np.int32) if taken else place(item.shape, sharding, compiled)
    return found


def _bytes_on_device(execution: Execution) -> Any:
    """Returns the bytes of the inputs that each device holds."""
    inputs = zip(execution.compiled.program.inputs, execution.compiled.shardings("parameter"), strict=True)
    sizes = [math.prod(s.shard_shape(item.shape)) * jax.numpy.dtype(item.dtype).itemsize for item, s in inputs]
    return np.int64(sum(sizes))


def _bytes_left_out(execution: Execution) -> int:
    """Returns the bytes of each device's outputs, to subtract where other memory is measured. Outputs of 64 bits count
    as 32: one can replace an output of 32 bits, and would subtract twice as much."""
    return int(_bytes_of_outputs(execution, widest=4))


def _bytes_of_outputs(execution: Execution, widest: int = 16) -> Any:
    """Returns the bytes of the outputs that each device holds, up to `widest` for a number."""
    widths = [min(width, widest) for width in stablehlo.result_widths(execution.compiled.parsed)]
    outputs = zip(execution.compiled.output_shapes, execution.compiled.shardings("output"), widths, strict=True)
    return np.int64(sum(math.prod(sharding.shard_shape(shape)) * width for shape, sharding, width in outputs))


def _donated(execution: Execution) -> dict[str, Any]:
    """Returns, for each input, 1 if an output reuses its memory, else 0. An input that is taken twice is not reused.

    Without a jit around all of them, the operations of `main` are separate programs. So the operation that returns the
    output must take the input itself. And the arrays that the operations pass to each other must be less than half of
    the program's outputs: a copy of the state, or a new state beside the old one, is as large as all outputs, and
    gradients are a third.
    """
    main, returned = stablehlo.main_block(execution.compiled.parsed), stablehlo.returned(execution.compiled.parsed)
    between = sum(stablehlo.tensor_bytes(x) for x in stablehlo.handed_on(execution.compiled.parsed))
    in_one = 2 * between < sum(map(stablehlo.tensor_bytes, returned))
    header = execution.compiled.text.partition("\n")[0]
    pairs = re.findall(r"\{(\d*)\}: \((\d+), \{[\d, ]*\}, (?:may|must)-alias\)", header)
    taken_over = {
        int(number)
        for place, number in pairs
        if stablehlo.is_taken_by(main.arguments[int(number)], returned[int(place or 0)]) and in_one
    }
    inputs = execution.compiled.program.inputs
    taken = Counter(item.name for item in inputs)
    return {item.name: np.int32(n in taken_over and taken[item.name] == 1) for n, item in enumerate(inputs)}


def _carried_bytes(execution: Execution) -> Any:
    """Returns the bytes that the loop over arrays of the case carries from one iteration to the next, without the
    arrays that it only reads.

    A loop within an iteration carries nothing to the next one, so it does not count.
    """
    main = stablehlo.main_block(execution.compiled.parsed)
    inputs = zip(execution.compiled.program.inputs, main.arguments, strict=True)
    uses = [use for item, value in inputs if item.source == "case" for use in value.uses]
    loops = {use.owner for use in uses if use.owner.name == counting.LOOP}
    return np.int64(max(map(stablehlo.carried_bytes, loops), default=0))


def _cache_bytes(execution: Execution) -> Any:
    """Returns the bytes that the loop carries beyond the program's outputs: the cache that its steps pass on."""
    return np.int64(max(0, int(_carried_bytes(execution)) - _bytes_left_out(execution)))


MEASURES: Mapping[str, Callable[[Execution], Any]] = {
    "temporary_bytes": _temporary_bytes,
    "operations": _operations,
    "products": _products,
    "inlined_operations": _inlined_operations,
    "work": work,
    "executed": _executed,
    "rounds": _rounds,
    "largest_operand": _largest_operand,
    "largest_array": _largest_array,
    "held_bytes": _held_bytes,
    "exchanged": _exchanged,
    "exchanged_bytes": _exchanged_bytes,
    "placed": _placed,
    "inputs": _inputs,
    "bytes_on_device": _bytes_on_device,
    "bytes_of_outputs": _bytes_of_outputs,
    "donated": _donated,
    "carried_bytes": _carried_bytes,
    "cache_bytes": _cache_bytes,
    "bill": bill,
}
"""The measures of a program by name. Each returns a number, or numbers by name."""


def measure(execution: Execution, names: Sequence[str], own: Mapping[str, OwnMeasure]) -> dict[str, Any]:
    """Returns the leaves `program.*` with these `names`, those below them, and those beside them in the same measure.

    `own` are the problem's own measures. Raises UncountableError.
    """
    found: dict[str, Any] = {}
    for key, function in {**MEASURES, **own}.items():
        if any(f"{name}.".startswith(f"{key}.") for name in names):
            value = function(execution)
            found |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return {PROGRAM + name: value for name, value in found.items()}
