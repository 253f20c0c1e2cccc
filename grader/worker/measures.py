"""What a witness measures of a compiled program: memory, operations, dtypes, collectives, donation, shardings."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from grader.problem import PROGRAM, Case
from grader.wire.program import Program
from grader.worker import stablehlo, work

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "f64": 8}


OwnMeasure = Callable[["Compiled", Case], Any]  # of one problem: MEASURES of its `probes.py`


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled program on its devices. `mesh` is the shape of the mesh on which placements are described."""

    program: Program
    executable: Any
    devices: list[Any]
    mesh: tuple[int, ...]
    parsed: Any  # the program as it was traced

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """The outputs, each as one array."""
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
        """The shardings of the parameters or of the outputs (`which`)."""
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


def _temporary_bytes(compiled: Compiled) -> Any:
    """The memory that XLA plans for intermediate results, without arguments and results."""
    return np.int64(compiled.executable.get_compiled_memory_stats().temp_size_in_bytes)


def _operations(compiled: Compiled) -> Any:
    """The number of operations in the program as it was traced. The body of a loop or of a function counts once."""
    return np.int64(sum(1 for _ in stablehlo.operations(compiled.parsed)))


def _products(compiled: Compiled) -> Any:
    """The number of matrix products in the program as it was traced. The body of a loop or of a function counts once."""
    return np.int64(sum(op.name == "stablehlo.dot_general" for op in stablehlo.operations(compiled.parsed)))


def _multiplications(compiled: Compiled) -> Any:
    """The floating-point operations of one run, as XLA counts them."""
    return np.float64(compiled.executable.cost_analysis().get("flops", 0.0))


def _work(compiled: Compiled) -> Any:
    """The floating-point multiplications of one run, with loops and branches as they are taken."""
    return np.int64(work.multiplications(compiled.parsed))


def _largest_array(compiled: Compiled) -> Any:
    """The number of elements of the largest array that an operation returns in the program as it was traced."""
    results = (value for operation in stablehlo.operations(compiled.parsed) for value in operation.results)
    return np.int64(max((math.prod(stablehlo.shape(value)) for value in results), default=0))


def _held_bytes(compiled: Compiled) -> Any:
    """The bytes of the inputs and of gathered arrays on each device."""
    gathered = sum(_size(arrays) for kind, arrays, _ in collectives(compiled) if kind == "all-gather")
    return _bytes_on_device(compiled) + np.int64(gathered)


def _exchanged_bytes(compiled: Compiled) -> Any:
    """The bytes that collectives produce on each device, if they join devices at different places along the mesh's last axis."""
    others = compiled.mesh[-1]
    joining = (arrays for _, arrays, groups in collectives(compiled) if np.ptp(groups % others, axis=1).any())
    return np.int64(sum(map(_size, joining)))


_COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|all-to-all|collective-broadcast|collective-permute|ragged-all-to-all|reduce-scatter)"
    r"(?:-start)?\((.*)"
)


def collectives(compiled: Compiled) -> Iterator[tuple[str, list[tuple[int, int]], Any]]:
    """The kind of each collective, the elements and the bytes of each array that it produces on a device, and the groups of
    devices that take part. One inside a loop occurs once."""
    for results, kind, rest in _COLLECTIVE.findall(compiled.text):
        arrays = []
        for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", results):
            elements = math.prod(int(n) for n in shape.split(",") if n)
            arrays.append((elements, _BYTES.get(dtype, 4) * elements))
        yield kind, arrays, _groups(rest, len(compiled.devices))


def _size(arrays: Sequence[tuple[int, int]]) -> int:
    return sum(size for _, size in arrays)


def _groups(text: str, devices: int) -> Any:
    """The groups of devices in the text of a collective. If it has another form than these, they are all in one group.

    `{{0,1},{2,3}}`; `[2,2]<=[2,2]T(1,0)`, which counts and transposes; `mesh['a'=2,'b'=2] {'a'}`, which names axes.
    """
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{(\{.*?\})\}", text):
        return np.array([[int(n) for n in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])])
    if counted := re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text):
        groups, shape, order = ([int(n) for n in part.split(",") if n] for part in counted.groups(""))
        return np.arange(devices).reshape(shape).transpose(order or None).reshape(groups)
    if named := re.search(r"replica_groups=mesh\[((?:'\w+'=\d+,?)+)\] \{((?:'\w+',?)+)\}", text):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
        inside = re.findall(r"'(\w+)'", named[2])
        order = sorted(range(len(sizes)), key=lambda number: list(sizes)[number] in inside)
        grid = np.arange(devices).reshape([int(size) for size in sizes.values()]).transpose(order)
        return grid.reshape(-1, math.prod(int(sizes[name]) for name in inside))
    return np.arange(devices)[None]


def _placed(compiled: Compiled) -> dict[str, Any]:
    """For each axis of each input and output, the mesh axes over which it is split, as numbers of `grader.checks.PLACES`.

    What counts is which device holds which slice. An input for which a program on several devices names no place is on one, also
    where it is an output.
    """
    inputs, outputs = compiled.program.inputs, compiled.program.outputs
    said = stablehlo.places_said(compiled.parsed)
    before = zip(inputs, compiled.shardings("parameter"), said, strict=True)
    moved = [number < 0 or said[number] for number in stablehlo.handed_through(compiled.parsed)]
    after = zip(outputs, compiled.output_shapes, compiled.shardings("output"), moved, strict=True)
    return {
        f"inputs.{item.name}": place(item.shape, sharding, compiled) if sure else np.full(len(item.shape), -1, np.int32)
        for item, sharding, sure in before
    } | {
        f"outputs.{name}": place(shape, sharding, compiled) if sure else np.full(len(shape), -1, np.int32)
        for name, shape, sharding, sure in after
    }


def place(shape: tuple[int, ...], sharding: Any, compiled: Compiled) -> Any:
    """For each axis of an array, the mesh axes over which it is split, as numbers of `grader.checks.PLACES`."""
    mesh = compiled.mesh
    if len(compiled.devices) != math.prod(mesh):
        return np.full(len(shape), -1, np.int32)
    where = sharding.devices_indices_map(shape)
    codes = []
    for axis in range(len(shape)):
        starts = np.array([where[device][axis].start or 0 for device in compiled.devices]).reshape(mesh)
        codes.append(sum(1 << number for number in range(len(mesh)) if np.ptp(starts, axis=number).any()))
    return np.array(codes, np.int32)


def _bytes_on_device(compiled: Compiled) -> Any:
    """The bytes of the inputs that each device holds."""
    inputs = zip(compiled.program.inputs, compiled.shardings("parameter"), strict=True)
    sizes = [math.prod(s.shard_shape(item.shape)) * jax.numpy.dtype(item.dtype).itemsize for item, s in inputs]
    return np.int64(sum(sizes))


def _bytes_of_outputs(compiled: Compiled) -> Any:
    """The bytes of the outputs that each device holds."""
    widths = stablehlo.result_widths(compiled.parsed)
    outputs = zip(compiled.output_shapes, compiled.shardings("output"), widths, strict=True)
    return np.int64(sum(math.prod(sharding.shard_shape(shape)) * width for shape, sharding, width in outputs))


def _donated(compiled: Compiled) -> dict[str, Any]:
    """For each input, 1 if an output takes over its memory, else 0."""
    header = compiled.text.partition("\n")[0]
    numbers = re.findall(r"\{[\d, ]*\}: \((\d+), \{[\d, ]*\}, (?:may|must)-alias\)", header)
    return {item.name: np.int32(str(n) in numbers) for n, item in enumerate(compiled.program.inputs)}


def _carried_bytes(compiled: Compiled) -> Any:
    """The bytes that the largest loop carries from one turn to the next, without what it only reads."""
    sizes = [0]
    for operation in stablehlo.operations(compiled.parsed):
        if operation.name == "stablehlo.while":
            sizes.append(stablehlo.carried_bytes(operation))
    return np.int64(max(sizes))


# Each returns a number, or numbers by name.
MEASURES: Mapping[str, Callable[[Compiled], Any]] = {
    "temporary_bytes": _temporary_bytes,
    "operations": _operations,
    "products": _products,
    "flops": _multiplications,
    "work": _work,
    "largest_array": _largest_array,
    "held_bytes": _held_bytes,
    "exchanged_bytes": _exchanged_bytes,
    "placed": _placed,
    "bytes_on_device": _bytes_on_device,
    "bytes_of_outputs": _bytes_of_outputs,
    "donated": _donated,
    "carried_bytes": _carried_bytes,
}


def measure(compiled: Compiled, names: Sequence[str], case: Case, own: Mapping[str, OwnMeasure]) -> dict[str, Any]:
    """The leaves `program.*` that are called `names`, or are below one of them, or beside one in the same measure.

    `own` are those of the problem.
    """
    functions: dict[str, Callable[[], Any]] = {key: partial(function, compiled) for key, function in MEASURES.items()}
    functions |= {key: partial(function, compiled, case) for key, function in own.items()}
    found: dict[str, Any] = {}
    for key, function in functions.items():
        if any(f"{name}.".startswith(f"{key}.") for name in names):
            value = function()
            found |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return {PROGRAM + name: value for name, value in found.items()}
