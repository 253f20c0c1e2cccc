"""StableHLO programs: traced, made canonical, walked through, compiled. The grader's only user of JAX's private
modules.

`docs/maintaining.md` says for each of them why it is used, and when it can go.
"""

import contextlib
import functools
import graphlib
import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import jax
import jax.extend
import numpy as np
from jax._src import core, dispatch, sharding_impls, source_info_util
from jax._src.export import _export
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.lib import _jax, lapack, xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir import ir as ir  # type: ignore[attr-defined]
from jax._src.lib.mlir import passmanager  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import func as func
from jax._src.lib.mlir.dialects import hlo  # type: ignore[attr-defined]

_MAIN = "main"
_CONSTANT = "stablehlo.constant"
_PLACES = "at:"  # begins the name of a location that holds places
_FRAME = re.compile(r'"([^"(|,]*)"\("([^"/|,]+)":(\d+)')  # a function, a file and a line of a traceback


@contextlib.contextmanager
def meshes_can_be_set() -> Iterator[None]:
    """Lets `jax.set_mesh` work while a program is traced within the context."""
    original = jax.set_mesh.__init__

    def init(self: Any, mesh: Any) -> None:
        with patch.object(core, "trace_state_clean", lambda: True):
            original(self, mesh)

    with patch.object(jax.set_mesh, "__init__", init):
        yield


@contextlib.contextmanager
def placements_are_traced() -> Iterator[None]:
    """Traces placements within the context: arrays are placed where `jax.device_put`, or `jnp.zeros` and its like with
    `device`, put them.

    Under jit, JAX drops these placements.
    """
    put: Any = dispatch.device_put_p.bind
    filled: Any = lax.full
    constrain: Any = jax.lax.with_sharding_constraint

    def place(x: Any, where: Any) -> Any:
        named = isinstance(where, jax.sharding.NamedSharding) and not where.mesh.empty
        return constrain(x, where) if named and isinstance(x, jax.core.Tracer) else x

    def bind(*arrays: Any, devices: Sequence[Any], **more: Any) -> list[Any]:
        return [place(x, where) for x, where in zip(put(*arrays, devices=devices, **more), devices, strict=True)]

    def full(*arguments: Any, sharding: Any = None, **more: Any) -> Any:
        return place(filled(*arguments, sharding=sharding, **more), sharding)

    with patch.object(dispatch.device_put_p, "bind", bind), patch.object(lax, "full", full):
        yield


@functools.cache
def context() -> Any:
    """Returns the MLIR context of this process. A new one costs milliseconds, and the first in a process a tenth of a
    second."""
    return mlir.make_ir_context()


def warm_up() -> None:
    """Makes an empty module canonical, so that MLIR does its imports and initialization now, not on first use."""
    with context(), ir.Location.unknown():
        _canonical(ir.Module.create())


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Makes `jax.export` return canonical modules within the context: without the names of functions and source
    locations, so that equal programs are equal bytes.

    It uses the MLIR context of this process, where JAX would make two for each program.
    """
    ours = context()
    with patch.object(mlir, "make_ir_context", lambda: ours), patch.object(_export, "_module_to_bytecode", _canonical):
        yield


_kept: frozenset[str] = frozenset()  # the files whose places stay in exported modules


@contextlib.contextmanager
def keeping_places(files: Iterable[str]) -> Iterator[None]:
    """Keeps in modules that are exported within the context, for each operation, the lines of `files` that it comes
    from; see `places`. For programs that are only explained: equal programs are then no longer equal bytes."""
    global _kept
    before = jax.config.jax_traceback_in_locations_limit  # type: ignore[attr-defined]
    known: Any = source_info_util.current
    _kept = frozenset(files)

    def current() -> Any:
        """JAX gives a whole backward pass the place of the forward one, also where it runs a function of the file."""
        frame, inside = inspect.currentframe(), False
        while frame and not frame.f_code.co_name.startswith("backward_pass"):
            inside = inside or frame.f_code.co_filename in _kept
            frame = frame.f_back
        found = known()
        return found.replace(traceback=xla_client.Traceback.get_traceback()) if frame and inside else found

    jax.config.update("jax_traceback_in_locations_limit", 100)  # type: ignore[no-untyped-call]
    try:
        with patch.object(source_info_util, "current", current):
            yield
    finally:
        _kept = frozenset()
        jax.config.update("jax_traceback_in_locations_limit", before)  # type: ignore[no-untyped-call]


Place = tuple[str, str, int]
"""A file, a function of it and a line."""


def places(operation: Any) -> list[Place]:
    """Returns the places that an operation comes from, each called at the next one. Empty for a module that was
    exported without them."""
    found = re.search(rf'"{_PLACES}(.*)"', str(operation.location))
    rows = [row.split("|") for row in found[1].split(",")] if found else []
    return [(file, function, int(line)) for file, function, line in rows]


def _shorten_locations(module: Any) -> None:
    for operation in operations(module):
        frames = _FRAME.findall(str(operation.location))
        rows = [f"{file}|{function}|{line}" for function, file, line in frames if file in _kept]
        operation.location = ir.Location.name(_PLACES + ",".join(rows)) if rows else ir.Location.unknown()


def _canonical(module: Any) -> bytes:
    with module.context, ir.Location.unknown():
        if _kept:
            _shorten_locations(module)
        else:
            strip_locations(module)
        symbols = ir.SymbolTable(module.operation)
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        for number, function in enumerate(functions):
            name = ir.StringAttr(function.attributes["sym_name"]).value
            if name != _MAIN:
                symbols.replace_all_symbol_uses(name, str(number), module.operation)
                symbols.set_symbol_name(function, str(number))
        module.operation.attributes["sym_name"] = ir.StringAttr.get("program")
        return serialized(module)


def strip_locations(module: Any) -> None:
    """Removes the source locations from a module. Call it inside the module's MLIR context."""
    passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)


def serialized(module: Any) -> bytes:
    """Returns a module as portable bytecode."""
    version = hlo.get_version_from_compatibility_requirement(hlo.StablehloCompatibilityRequirement.WEEK_4)
    data: bytes = _jax.mlir.serialize_portable_artifact(module, version, True)
    return data


def parsed(module: bytes) -> Any:
    """Returns the module as MLIR's Python objects. They live as long as it does."""
    with context():
        return _jax.mlir.deserialize_portable_artifact(module)


def operations(module: Any) -> Iterator[Any]:
    """Yields every operation of a module, also in loops and functions. Each occurs once, however often it runs."""
    yield from inside(module.operation)


def inside(operation: Any) -> Iterator[Any]:
    """Yields every operation in the regions of another one, with those inside them."""
    for region in operation.regions:
        for block in region.blocks:
            yield from inside_block(block)


def inside_block(block: Any) -> Iterator[Any]:
    """Yields every operation of a block, with those inside them."""
    for view in block.operations:
        yield view.operation
        yield from inside(view.operation)


def sizes_are_known(module: Any) -> bool:
    """Returns whether a parsed module gives the size of each of its arrays. MLIR has a number below 0 for a size that
    it does not know but XLA may know."""
    values = (value for operation in operations(module) for value in [*operation.results, *_arguments(operation)])
    kinds = {value.type for value in values}
    return not any(re.search(r"[?*#]", str(kind)) for kind in kinds)  # `#` says how a size is bounded


def _arguments(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            yield from block.arguments


def end(block: Any) -> Any:
    """Returns the last operation of a block, which returns its values."""
    return list(block.operations)[-1].operation


def functions(module: Any) -> dict[str, Any]:
    """Returns the functions of a parsed module by name."""
    return {
        ir.StringAttr(view.operation.attributes["sym_name"]).value: view.operation
        for view in module.body.operations
        if view.operation.name == "func.func"
    }


def callee(operation: Any) -> str:
    """Returns the name of the function that an operation calls; empty for any other operation."""
    attribute = {"func.call": "callee", "stablehlo.composite": "decomposition"}.get(operation.name)
    return str(ir.FlatSymbolRefAttr(operation.attributes[attribute]).value) if attribute else ""


def callers_first(functions: Mapping[str, Any]) -> list[str]:
    """Returns the names of functions, each after all functions that call it. Raises ValueError if one calls itself."""
    graph = {name: {callee(inner) for inner in inside(function)} - {""} for name, function in functions.items()}
    try:
        return list(graphlib.TopologicalSorter(graph).static_order())[::-1]
    except graphlib.CycleError:
        raise ValueError("a function of the program calls itself") from None


def parameters(module: Any) -> list[tuple[tuple[int, ...], str]]:
    """Returns the shapes and element types of the parameters of a parsed module."""
    kinds = map(ir.RankedTensorType, _type_of_main(module).inputs)
    return [(tuple(kind.shape), str(kind.element_type)) for kind in kinds]


def places_said(module: Any) -> list[bool]:
    """Returns, for each parameter of a parsed module, whether the module gives its sharding."""
    attributes = ir.SymbolTable(module.operation)[_MAIN].attributes
    if "arg_attrs" not in attributes:
        return [False] * len(_type_of_main(module).inputs)
    return ["sdy.sharding" in ir.DictAttr(one) for one in ir.ArrayAttr(attributes["arg_attrs"])]


def returned(module: Any) -> list[Any]:
    """Returns the values that a parsed module returns."""
    return list(end(main_block(module)).operands)


def handed_on(module: Any) -> list[Any]:
    """Returns the results of operations of `main` that the module does not return: the values that operations pass to
    each other."""
    outputs = set(returned(module))
    return [value for view in main_block(module).operations for value in view.operation.results if value not in outputs]


def is_taken_by(parameter: Any, output: Any) -> bool:
    """Returns whether an output is this parameter, or a result of an operation that takes it."""
    return bool(parameter == output or (not is_argument(output) and parameter in list(output.owner.operands)))


def handed_through(module: Any) -> list[int]:
    """Returns, for each output of a parsed module, the number of the parameter that it is, unchanged; -1 if it is
    computed."""
    parameters = {value: number for number, value in enumerate(main_block(module).arguments)}
    return [parameters.get(value, -1) for value in returned(module)]


def result_shapes(module: Any) -> list[tuple[int, ...]]:
    """Returns the shapes of the outputs of a parsed module."""
    return [tuple(ir.RankedTensorType(kind).shape) for kind in _type_of_main(module).results]


def result_widths(module: Any) -> list[int]:
    """Returns the bytes of an element of each output of a parsed module."""
    return [width(ir.RankedTensorType(kind)) for kind in _type_of_main(module).results]


def width(kind: Any) -> int:
    """Returns the bytes of an element of a tensor of this type."""
    element, parts = kind.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    return parts * max(1, int(element.width) // 8)


def tensor_bytes(value: Any) -> int:
    """Returns the bytes of a value of a parsed module."""
    kind = ir.RankedTensorType(value.type)
    return int(np.prod(kind.shape)) * width(kind)


def numbers(value: Any) -> int:
    """Returns the size of a value of a parsed module, in units of 32 bits: a number of 64 bits or a complex one can
    hold several."""
    kind = ir.RankedTensorType(value.type)
    return math.prod(kind.shape) * max(1, width(kind) // 4)


def _type_of_main(module: Any) -> Any:
    return ir.FunctionType(ir.TypeAttr(ir.SymbolTable(module.operation)[_MAIN].attributes["function_type"]).value)


def meshes(module: Any) -> dict[str, list[tuple[str, int]]]:
    """Returns the names and sizes of the axes of each mesh that a parsed module names."""
    return _meshes(module.body.operations)


def _meshes(operations: Any) -> dict[str, list[tuple[str, int]]]:
    found = {}
    for view in operations:
        if view.operation.name == "sdy.mesh":
            axes = re.findall(r'"(\w+)"=(\d+)', str(view.operation.attributes["mesh"]))
            found[str(ir.StringAttr(view.operation.attributes["sym_name"]).value)] = [
                (name, int(size)) for name, size in axes
            ]
    return found


def main_block(module: Any) -> Any:
    """Returns the block of operations that a parsed module runs."""
    return ir.SymbolTable(module.operation)[_MAIN].regions[0].blocks[0]


def element_type(dtype: Any) -> str:
    """Returns an element type as MLIR writes it."""
    with context():
        return str(mlir.dtype_to_ir_type(np.dtype(dtype)))


def compiled(module: bytes, devices: Sequence[Any]) -> Any:
    """Returns the module, compiled for these devices. Raises jax.errors.JaxRuntimeError."""
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, len(devices)
    options.executable_build_options.use_spmd_partitioning = len(devices) > 1
    options.executable_build_options.use_shardy_partitioner = True
    ids = np.array([[device.id for device in devices]])
    options.device_assignment = xla_client.DeviceAssignment.create(ids)
    backend: Any = jax.extend.backend.get_backend()
    return backend.compile_and_load(module, xla_client.DeviceList(tuple(devices)), options)


def prepare_linear_algebra() -> None:
    """Loads LAPACK. JAX does so when it lowers a decomposition; without it, XLA calls one at address 0."""
    lapack.prepare_lapack_call("gesdd_ffi", np.float32)  # type: ignore[no-untyped-call]


def shardings(parts: Sequence[Any], devices: Sequence[Any]) -> list[Any]:
    """Converts XLA's shardings to JAX's."""
    return [sharding_impls.GSPMDSharding(tuple(devices), part) for part in parts]


def custom_calls() -> frozenset[str]:
    """Returns the names of the functions that a program could call in this process."""
    return frozenset(map(str, xla_client.custom_call_targets("cpu")))


def dtypes(values: Any) -> list[str]:
    """Returns the element types of values, as MLIR writes them: `bf16`, `f32`, `i32`."""
    return [str(ir.RankedTensorType(value.type).element_type) for value in values]


def shape(value: Any) -> tuple[int, ...]:
    """Returns the shape of a value."""
    return tuple(ir.RankedTensorType(value.type).shape)


def contracted_axes(product: Any) -> list[int]:
    """Returns the axes of the left operand of a `dot_general` that the product sums over."""
    return list(hlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"]).lhs_contracting_dimensions)


def output_features_axis(convolution: Any) -> int:
    """Returns the axis of a convolution's kernel that holds its output features."""
    return int(hlo.ConvDimensionNumbers(convolution.attributes["dimension_numbers"]).kernel_output_feature_dimension)


def batch_axes(product: Any) -> int:
    """Returns the number of axes over which a `dot_general` is a batch of products."""
    return len(hlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"]).lhs_batching_dimensions)


def gathered_axes(gather: Any) -> tuple[int, int]:
    """Returns the numbers that a `gather` reads at one place, and the count of its operand's batches."""
    numbers = hlo.GatherDimensionNumbers(gather.attributes["dimension_numbers"])
    operand = shape(gather.operands[0])
    window = math.prod(ir.DenseI64ArrayAttr(gather.attributes["slice_sizes"]))
    return window, math.prod(operand[axis] for axis in numbers.operand_batching_dims)


def scattered_axes(scatter: Any) -> tuple[int, int]:
    """Returns the numbers that a `scatter` writes at one place, and the count of its operand's batches."""
    numbers = hlo.ScatterDimensionNumbers(scatter.attributes["scatter_dimension_numbers"])
    operand, updates = shape(scatter.operands[0]), shape(scatter.operands[-1])
    window = math.prod(updates[axis] for axis in numbers.update_window_dims)
    return window, math.prod(operand[axis] for axis in numbers.input_batching_dims)


def device_groups(collective: Any) -> list[list[int]]:
    """Returns the groups of devices in which a collective exchanges numbers, or its pairs of a source and a target.

    JAX 0.12 names the axes of a mesh instead of listing the groups. Raises ValueError if it names a part of an axis.
    """
    name = "source_target_pairs" if collective.name == "stablehlo.collective_permute" else "replica_groups"
    text = str(collective.attributes[name])
    if named := re.fullmatch(r"#stablehlo\.replica_group_mesh_axes<mesh = @([\w.$-]+), axes = \[(.*)\]>", text):
        top = collective
        while top.parent is not None:
            top = top.parent.operation
        sizes = dict(_meshes(top.regions[0].blocks[0].operations)[named[1]])
        inside = re.findall(r'#stablehlo\.axis_ref<name = "(\w+)">', named[2])
        if named[2].count("axis_ref") != len(inside):
            raise ValueError(f"groups of a part of an axis: {text}")
        groups: list[list[int]] = groups_along(sizes, inside).tolist()
        return groups
    rows = np.array(ir.DenseElementsAttr(collective.attributes[name])).tolist()
    return [[number for number in row if number >= 0] for row in rows]  # groups of different sizes are filled with -1


def groups_along(sizes: Mapping[str, int], axes: Sequence[str]) -> Any:
    """Returns the groups of the devices of a mesh that differ only in their places along these axes, one in a row.
    `sizes` are those of all axes, in order."""
    places = sorted(range(len(sizes)), key=lambda place: list(sizes)[place] in axes)
    grid = np.arange(math.prod(sizes.values())).reshape([*sizes.values()]).transpose(places)
    return grid.reshape(-1, math.prod(sizes[each] for each in axes))


def sorted_axis(sort: Any) -> int:
    """Returns the axis along which a `sort` sorts."""
    return int(ir.IntegerAttr(sort.attributes["dimension"]).value)


def padding(window: Any) -> list[list[int]]:
    """Returns the numbers added before and after each axis for a `reduce_window`."""
    if "padding" not in window.attributes:
        return [[0, 0]] * len(shape(window.operands[0]))
    pairs: list[list[int]] = np.array(ir.DenseElementsAttr(window.attributes["padding"])).tolist()
    return pairs


def reduces_by(operation: Any, name: str) -> bool:
    """Returns whether a reduction applies the operation `name`."""
    return any(inner.operation.name == name for block in operation.regions[0].blocks for inner in block.operations)


def is_argument(value: Any) -> bool:
    """Returns whether a value is an argument of its block: of a function, or of the body of a loop."""
    return isinstance(value.owner, ir.Block)


def is_constant(value: Any, number: int) -> bool:
    """Returns whether a value is a constant scalar that equals `number`."""
    if is_argument(value) or value.owner.name != _CONSTANT or shape(value):
        return False
    return bool(np.array(ir.DenseElementsAttr(value.owner.attributes["value"])).item() == number)


def numbers_written(module: Any) -> int:
    """Returns the count of numbers in the constants of a module. Equal arrays count once, and an array that is filled
    with one number counts as one."""
    found = {each.attributes["value"] for each in operations(module) if each.name == _CONSTANT}
    return sum(1 if one.is_splat else len(one) for one in map(ir.DenseElementsAttr, found))


def is_below_0(value: Any, number: Any) -> bool:
    """Returns whether a value is the comparison `number` < 0."""
    if is_argument(value) or value.owner.name != "stablehlo.compare":
        return False
    left, right = value.owner.operands
    return left == number and is_constant(right, 0) and "LT" in str(value.owner.attributes["comparison_direction"])


# Operations that move numbers, or change their type, and compute nothing
REARRANGING = frozenset(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "concatenate", "convert", "reshape", "slice", "transpose")
)


def carried_bytes(loop: Any) -> int:
    """Returns the bytes that a `while` carries from one iteration to the next.

    Parameters and constants that it only reads do not count. Values that the program computed before the loop count,
    also if the loop passes them on unchanged, or sees them without carrying them (as no loop of JAX does): a cache may
    hold tables.
    """
    body = loop.regions[1].blocks[0]
    carried = zip(loop.operands, body.arguments, end(body).operands, strict=True)
    own = [value for each in (loop, *inside(loop)) for value in _arguments(each)]
    own += [value for each in inside(loop) for value in each.results]
    seen = {value for each in inside(loop) for value in each.operands} - set(own)
    left = [old for start, old, new in carried if old != new or not _is_given(start)]
    return sum(map(tensor_bytes, (*left, *(value for value in seen if not _is_given(value)))))


def _is_given(value: Any) -> bool:
    """Returns whether a value is a constant or a parameter of its program or function, or consists of such, each number
    once."""
    if is_argument(value):
        return True
    operation = value.owner
    if operation.name not in REARRANGING:
        return bool(operation.name == _CONSTANT)
    sizes = [math.prod(shape(operand)) for operand in operation.operands]
    return math.prod(shape(value)) <= sum(sizes) and all(map(_is_given, operation.operands))
