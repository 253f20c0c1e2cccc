"""The bill of a program: what one execution costs, by kind and by line of the source.

The program is followed call by call, so a function that is called twice is two pieces of work. Its arrays are those of
the program as it was traced, so the figures are the same on every machine. `docs/cost.md` defines each figure.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.worker import cost, counting, stablehlo
from grader.worker.stablehlo import Place

if TYPE_CHECKING:
    from grader.worker.measures import Execution

KINDS = ("products", "elementwise", "moved")
_PRODUCTS = ("dot", "dot_general", "convolution", "fft", "cholesky", "triangular_solve", "custom_call")
_MOVED = (*cost.COMPUTED_PLACES, "scatter", "select_and_scatter", "sort")
# Operations that only name an array of memory again.
_VIEWS = ("reshape", "transpose", "bitcast_convert", "optimization_barrier", "custom_call", "sharding_constraint")
# Operations that read what they need from memory, and leave what they compute there.
_APART = (
    *_PRODUCTS, "sort", "reduce_window", "select_and_scatter", "rng_bit_generator",
    *counting.COLLECTIVES, "partition_id", "replica_id",
)  # fmt: skip
_WINDOWS = ("dynamic_slice", "gather", "slice")  # these read a part of an array
_UPDATES = {"dynamic_update_slice": 1, "scatter": -1}  # these write a part: the operand that holds it
_ENDS = ("stablehlo.return", "func.return", "sdy.return")


@dataclass(eq=False)
class _Array:
    """An array of the program, in one call.

    Attributes:
        size: Its bytes.
        depth: The number of operations that had to be computed one after another.
        kept: Whether it has to exist in memory. Any other is computed where it is needed.
        sources: The arrays from which it is computed, with the bytes of each that this reads.
        times: How often it is computed.
        written: The bytes that computing it writes, if it is kept.
        is_float: Whether it depends on a number that is not an integer. A mask of positions does not.
        product: The places of the matrix product that it is, up to what happened to each number of it.
    """

    size: int
    depth: int = 0
    kept: bool = False
    sources: list[tuple["_Array", int]] = field(default_factory=list)
    times: Fraction = Fraction(0)
    written: int = 0
    is_float: bool = False
    product: tuple[Place, ...] = ()


Arrays = dict[Any, _Array]  # by the value of the program


class _Walk:
    """Follows one execution of a program through its calls, loops and branches."""

    def __init__(self, execution: "Execution") -> None:
        module = execution.compiled.parsed
        self.functions = stablehlo.functions(module)
        self.rates = counting.rates(module, execution.counters)
        self.first = counting.first_counters(module)
        self.arrays: list[_Array] = []
        self.lines: dict[tuple[Place, ...], dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self.masked: dict[tuple[Place, ...], tuple[int, ...]] = {}  # the shape of products that a mask hides in part
        self._costs: dict[Any, int] = {}
        main = stablehlo.main_block(module)
        given: Arrays = {value: _given(value) for value in main.arguments}
        outputs = self._block(main, given, Fraction(1), ())
        self.chain = max((array.depth for array in outputs), default=0)
        for array in outputs:
            array.kept = True

    def traffic(self) -> tuple[int, int]:
        """Returns the bytes that are read and written. An array that is kept is computed in one pass over the arrays
        in memory that it is computed from."""
        needs: dict[_Array, Mapping[_Array, int]] = {}
        read = written = Fraction(0)
        for array in self.arrays:  # in the order in which they are computed
            found: dict[_Array, int] = {}
            for source, size in array.sources:
                for each, whole in {source: source.size}.items() if source.kept else needs[source].items():
                    found[each] = min(each.size, max(found.get(each, 0), min(size, whole)))
            needs[array] = found
            if array.kept:
                read += array.times * sum(found.values())
                written += array.times * array.written
        return math.ceil(read), math.ceil(written)

    def _block(self, block: Any, known: Arrays, times: Fraction, calls: tuple[Place, ...]) -> list[_Array]:
        """Follows the operations of a block, which see the arrays `known`. Returns those that it returns."""
        for view in block.operations:
            operation = view.operation
            if operation.name in _ENDS:
                return [known[value] for value in operation.operands]
            self._count(operation, times, calls)
            for value, array in zip(operation.results, self._results(operation, known, times, calls), strict=True):
                known[value] = array
        return []

    def _results(
        self, operation: Any, known: Arrays, times: Fraction, calls: tuple[Place, ...]
    ) -> Sequence[_Array]:
        operands = [known[value] for value in operation.operands]
        if callee := stablehlo.callee(operation):
            block = self.functions[callee].regions[0].blocks[0]
            inner = dict(zip(block.arguments, operands, strict=True))
            return self._block(block, inner, times, _joined(stablehlo.places(operation), calls))
        if operation.name == counting.LOOP:
            return self._loop(operation, known, operands, times, calls)
        if operation.name in counting.BRANCHES:
            return self._branches(operation, known, times, calls)
        if operation.name == counting.MANUAL:
            _keep(operands)
            block = operation.regions[0].blocks[0]
            arguments = {
                value: _given(value, array.depth) for value, array in zip(block.arguments, operands, strict=True)
            }
            results = self._block(block, known | arguments, times, calls)
            _keep(results)
            return [_given(value, array.depth) for value, array in zip(operation.results, results, strict=True)]
        made = self._computed(operation, operands, times)
        self._trace_product(operation, operands, made, calls)
        return made

    def _loop(
        self, loop: Any, known: Arrays, operands: list[_Array], times: Fraction, calls: tuple[Place, ...]
    ) -> list[_Array]:
        _keep(operands)
        turns = self.rates[f"{counting.NAME}{self.first[loop]}"][0]
        condition, body = (region.blocks[0] for region in loop.regions)
        self._block(condition, known | {value: _given(value) for value in condition.arguments}, times * (turns + 1), calls)
        carried: Arrays = {value: _given(value) for value in body.arguments}
        results = self._block(body, known | carried, times * turns, calls)
        _keep(results)
        depth = max((array.depth for array in operands), default=0) + math.ceil(
            turns * max((array.depth for array in results), default=0)
        )
        return [_given(value, depth) for value in loop.results]

    def _branches(
        self, operation: Any, known: Arrays, times: Fraction, calls: tuple[Place, ...]
    ) -> list[_Array]:
        rates = self.rates[f"{counting.NAME}{self.first[operation]}"]
        depth = max((known[value].depth for value in operation.operands), default=0)
        for region, rate in zip(operation.regions, rates, strict=True):
            results = self._block(region.blocks[0], dict(known), times * rate, calls)
            _keep(results)
            if rate:
                depth = max([depth, *(array.depth for array in results)])
        return [_given(value, depth) for value in operation.results]

    def _computed(self, operation: Any, operands: list[_Array], times: Fraction) -> list[_Array]:
        """Returns the results of an operation that computes or moves numbers."""
        name = operation.name.partition(".")[2]
        steps = max(1, cost.rows_in_order(operation)) if self._cost(operation) else 0
        depth = max((array.depth for array in operands), default=0) + steps
        if name in _VIEWS and not steps:
            return [_view(array, depth) for array in operands[: len(operation.results)]]
        if name in _APART:
            _keep(operands)
        made = []
        for value in operation.results:
            size = stablehlo.tensor_bytes(value)
            array = _Array(size, depth, name in _APART, times=times, written=size)
            array.sources = [(each, each.size) for each in operands]
            if name in _WINDOWS:
                array.sources[0] = (operands[0], size)
                if name != "slice":  # any place of it may be read
                    _keep(operands[:1])
            elif name in _UPDATES:
                part = operands[_UPDATES[name]]
                _keep(operands[:1])
                array.kept, array.written = True, part.size
                read = part.size if name == "scatter" else 0  # a sum reads what it adds to
                array.sources[0] = (operands[0], read)
            elif name == "reduce":
                array.kept = True
            elif name == "constant":
                array.kept = _is_table(operation)
                array.written = 0
            self.arrays.append(array)
            made.append(array)
        return made

    def _trace_product(
        self, operation: Any, operands: list[_Array], made: list[_Array], calls: tuple[Place, ...]
    ) -> None:
        """Follows products to the masks that hide a part of their numbers."""
        name = operation.name.partition(".")[2]
        for value, array in zip(operation.results, made, strict=True):
            array.is_float |= _is_float(value) or any(each.is_float for each in operands)
            if name in ("dot_general", "dot"):
                array.product = _joined(stablehlo.places(operation), calls)
            elif name in (*cost.BY_ELEMENT, *_VIEWS):
                array.product = array.product or next((each.product for each in operands if each.product), ())
            if name == "select" and array.product and not operands[0].is_float:
                self.masked[array.product] = stablehlo.shape(value)

    def _count(self, operation: Any, times: Fraction, calls: tuple[Place, ...]) -> None:
        if total := self._cost(operation):
            self.lines[_joined(stablehlo.places(operation), calls)][kind(operation)] += times * total

    def _cost(self, operation: Any) -> int:
        if operation not in self._costs:
            self._costs[operation] = cost.cost(operation, self.functions)
        return self._costs[operation]


def kind(operation: Any) -> str:
    """Returns the kind of work of an operation, one of KINDS."""
    name = operation.name.partition(".")[2]
    return "products" if name in _PRODUCTS else "moved" if name in _MOVED else "elementwise"


def _given(value: Any, depth: int = 0) -> _Array:
    """Returns an array that is in memory already."""
    return _Array(stablehlo.tensor_bytes(value), depth, kept=True, is_float=_is_float(value))


def _is_float(value: Any) -> bool:
    return any(kind.startswith(("f", "bf", "complex")) for kind in stablehlo.dtypes([value]))


def _view(array: _Array, depth: int) -> _Array:
    return array if depth <= array.depth else _Array(array.size, depth, sources=[(array, array.size)])


def _keep(arrays: Sequence[_Array]) -> None:
    for array in arrays:
        array.kept = True


def _is_table(constant: Any) -> bool:
    """Returns whether a constant holds different numbers."""
    return not stablehlo.ir.DenseElementsAttr(constant.attributes["value"]).is_splat


def _joined(places: Sequence[Place], calls: Sequence[Place]) -> tuple[Place, ...]:
    """Returns the places of an operation and of the calls around it, the innermost first, each function once.

    JAX traces a function once for all its calls, so what it says of the calls around it may be another one.
    """
    found: dict[tuple[str, str], Place] = {}
    for place in reversed([*places, *calls]):
        found.setdefault(place[:2], place)
    return tuple(reversed(found.values()))


def _by_line(walk: _Walk) -> Iterator[dict[str, Any]]:
    """Yields the work of each line, with the lines that call its function, and the shape of a product of it that a mask
    hides in part. A line without a file is that of the grader's own code."""
    found: dict[tuple[str, int], dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    callers: dict[tuple[str, int], dict[tuple[str, int], None]] = defaultdict(dict)
    for places, kinds in walk.lines.items():
        (file, _, line), *around = places or [("", "", 0)]
        for name, total in kinds.items():
            found[file, line][name] += total
        if around:
            callers[file, line][around[0][0], around[0][2]] = None
    masked = {(places[0][0], places[0][2]): shape for places, shape in walk.masked.items() if places}
    for (file, line), kinds in sorted(found.items()):
        work = {name: math.ceil(kinds[name]) for name in KINDS}
        yield {"file": file, "line": line, **work, "callers": sorted(callers[file, line]),
               "masked": masked.get((file, line), ())}  # fmt: skip


def bill(execution: "Execution") -> Any:
    """Returns the bill of a program as JSON text, an array of bytes. Raises UncountableError."""
    from grader.worker.measures import MEASURES

    walk = _Walk(execution)
    kinds = dict.fromkeys(KINDS, 0)
    for run, total in execution.costs:
        kinds[kind(run.operation)] += total
    read, written = walk.traffic()
    loops = [each for each in stablehlo.operations(execution.compiled.parsed) if each.name == counting.LOOP]
    devices = len(execution.compiled.devices)
    sent = execution.collectives if devices > 1 else []
    figures = {
        **kinds,
        **{name: int(MEASURES[name](execution)) for name in ("temporary_bytes", "bytes_of_outputs", "operations")},
        "carried_bytes": max(map(stablehlo.carried_bytes, loops), default=0),
        "read_bytes": read,
        "written_bytes": written,
        "chain": walk.chain,
        "collectives": math.ceil(sum(each.times for each in sent)),
        "sent_bytes": math.ceil(sum(each.times * each.size for each in sent)),
        "hops": math.ceil(
            sum(each.times * each.hops(devices) for each in sent if each.kind == "collective-permute")
        ),
    }
    text = json.dumps({"figures": figures, "lines": list(_by_line(walk))})
    return np.frombuffer(text.encode(), np.uint8)
