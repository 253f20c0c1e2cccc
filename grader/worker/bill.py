"""The bill of a program: what one execution costs, by kind and by line of the source.

The program is followed call by call, so a function that is called twice is two pieces of work. Its arrays are those of
the program as it was traced, so the figures are the same on every machine. `docs/cost.md` defines each figure.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from grader.worker import cost, counting, memory, stablehlo
from grader.worker.memory import Array, Timeline, keep
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


Arrays = dict[Any, Array]
"""Arrays by the values of the program."""
Calls = tuple[Place, ...]
"""The places of the calls that lead to a piece of the program, the innermost first."""


class _Walk:
    """Follows one execution of a program through its calls, loops and branches."""

    def __init__(self, execution: "Execution") -> None:
        module = execution.compiled.parsed
        self.functions = stablehlo.functions(module)
        self.rates = counting.rates(module, execution.counters)
        self.first = counting.first_counters(module)
        self.timeline = Timeline()
        # How many operations an array needs one after another, since the program or a turn of a loop began
        self.depths: dict[Array, int] = {}
        self.computed: dict[Array, Calls] = {}
        self.lines: dict[Calls, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self.products: dict[Array, Calls] = {}  # arrays that are a product, up to what happened to each number of it
        self.masked: dict[Calls, tuple[int, ...]] = {}  # the shape of products that a mask hides in part
        self._costs: dict[Any, int] = {}
        main = stablehlo.main_block(module)
        outputs = self._block(main, self._given(main.arguments), Fraction(1), ())
        self.chain = self._longest(outputs)

    def _block(self, block: Any, known: Arrays, times: Fraction, calls: Calls) -> list[Array]:
        """Follows the operations of a block, which see the arrays `known`. Returns those that it returns, which have to
        exist."""
        results = self._operations(block, known, times, calls)
        keep(results)
        for array in results:
            array.use()
        return results

    def _operations(self, block: Any, known: Arrays, times: Fraction, calls: Calls) -> list[Array]:
        for view in block.operations:
            operation = view.operation
            if operation.name in _ENDS:
                return [known[value] for value in operation.operands]
            self.timeline.now += 1
            for value in operation.operands:
                known[value].use()
            if total := self._cost(operation):
                self.lines[_joined(stablehlo.places(operation), calls)][kind(operation)] += times * total
            known.update(zip(operation.results, self._results(operation, known, times, calls), strict=True))
        return []

    def _results(self, operation: Any, known: Arrays, times: Fraction, calls: Calls) -> Sequence[Array]:
        operands = [known[value] for value in operation.operands]
        if callee := stablehlo.callee(operation):
            block = self.functions[callee].regions[0].blocks[0]
            inner = dict(zip(block.arguments, operands, strict=True))
            return self._operations(block, inner, times, _joined(stablehlo.places(operation), calls))
        if operation.name == counting.LOOP:
            return self._loop(operation, known, operands, times, calls)
        if operation.name in counting.BRANCHES:
            return self._branches(operation, known, times, calls)
        if operation.name == counting.MANUAL:
            keep(operands)
            block = operation.regions[0].blocks[0]
            known = known | self._given(block.arguments)
            for value, array in zip(block.arguments, operands, strict=True):
                self.depths[known[value]] = self._longest([array])
            results = self._block(block, known, times, calls)
            return [
                self._new(value, self._longest([array]))
                for value, array in zip(operation.results, results, strict=True)
            ]
        made = self._computed(operation, operands, times, calls)
        self._follow_product(operation, operands, made, calls)
        return made

    def _loop(self, loop: Any, known: Arrays, operands: list[Array], times: Fraction, calls: Calls) -> list[Array]:
        """Follows a loop. What it carries has a place for all turns, that of the array that it begins with if nothing
        else needs that one."""
        keep(operands)
        turns = self.rates[f"{counting.NAME}{self.first[loop]}"][0]
        condition, body = (region.blocks[0] for region in loop.regions)
        results = [
            before if end == argument else self._new(value, replaces=[before])
            for value, before, argument, end in zip(
                loop.results, operands, body.arguments, stablehlo.end(body).operands, strict=True
            )
        ]
        begin, outer, self.depths = self._longest(operands), self.depths, {}
        with self._inside():
            self._operations(condition, known | self._given(condition.arguments), times * (turns + 1), calls)
        with self._inside():
            inner = known | self._given(body.arguments)
            for value, array, before in zip(body.arguments, results, operands, strict=True):
                inner[value] = before if array is before else inner[value]
            ends = self._block(body, inner, times * turns, calls)
        depth = begin + math.ceil(turns * self._longest(ends))
        self.depths = outer | {array: depth for array, old in zip(results, operands, strict=True) if array is not old}
        return results

    def _branches(self, operation: Any, known: Arrays, times: Fraction, calls: Calls) -> list[Array]:
        rates = self.rates[f"{counting.NAME}{self.first[operation]}"]
        depth = self._longest(known[value] for value in operation.operands)
        for region, rate in zip(operation.regions, rates, strict=True):
            with self._inside():
                results = self._block(region.blocks[0], dict(known), times * rate, calls)
            if rate:
                depth = max(depth, self._longest(results))
        self.timeline.now += 1
        return [self._new(value, depth) for value in operation.results]

    def _computed(self, operation: Any, operands: list[Array], times: Fraction, calls: Calls) -> list[Array]:
        """Returns the results of an operation that computes or moves numbers."""
        name = operation.name.partition(".")[2]
        steps = max(1, cost.rows_in_order(operation)) if self._cost(operation) else 0
        depth = self._longest(operands) + steps
        if name in _VIEWS and not steps:
            return operands[: len(operation.results)]
        if name in _APART:
            keep(operands)
        made = []
        for value in operation.results:
            array = self._new(value, depth, kept=name in (*_APART, *_UPDATES, "reduce"))
            array.times, array.written = times, array.size
            array.sources = [(each, each.size) for each in operands]
            if name in cost.BY_ELEMENT:
                array.replaces = [each for each in operands if each.size == array.size]
            elif name in _WINDOWS:
                array.sources[0] = (operands[0], array.size)
                if name != "slice":  # any place of it may be read
                    keep(operands[:1])
            elif name in _UPDATES:
                part = operands[_UPDATES[name]]
                keep(operands[:1])
                array.replaces, array.written = operands[:1], part.size
                array.sources[0] = (operands[0], part.size if name == "scatter" else 0)  # a sum reads what it adds to
            elif name == "constant":
                array.kept, array.written = _is_table(operation), 0
            self.computed[array] = _joined(stablehlo.places(operation), calls)
            made.append(array)
        return made

    def _new(self, value: Any, depth: int = 0, *, kept: bool = True, replaces: Sequence[Array] = ()) -> Array:
        array = Array(stablehlo.tensor_bytes(value), self.timeline, kept, replaces=list(replaces))
        self.depths[array] = depth
        array.is_float = _is_float(value)
        return array

    def _longest(self, arrays: Iterable[Array]) -> int:
        return max((self.depths.get(array, 0) for array in arrays), default=0)

    def _given(self, values: Any) -> Arrays:
        """Returns the arrays that are there when a piece of the program begins."""
        found = {value: self._new(value) for value in values}
        for array in found.values():
            array.given = True
        return found

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Follows what runs inside of the present step."""
        outer, self.timeline = self.timeline, Timeline()
        outer.inner[outer.now].append(self.timeline)
        yield
        self.timeline = outer

    def _follow_product(self, operation: Any, operands: list[Array], made: list[Array], calls: Calls) -> None:
        """Follows products to the masks that hide a part of their numbers."""
        name = operation.name.partition(".")[2]
        for value, array in zip(operation.results, made, strict=True):
            array.is_float = array.is_float or any(each.is_float for each in operands)
            if name in ("dot_general", "dot"):
                self.products[array] = _joined(stablehlo.places(operation), calls)
            elif name in cost.BY_ELEMENT:
                found = next((self.products[each] for each in operands if each in self.products), ())
                self.products |= {array: found} if found else {}
            if name == "select" and array in self.products and not operands[0].is_float:
                self.masked[self.products[array]] = stablehlo.shape(value)

    def _cost(self, operation: Any) -> int:
        if operation not in self._costs:
            self._costs[operation] = cost.cost(operation, self.functions)
        return self._costs[operation]


def kind(operation: Any) -> str:
    """Returns the kind of work of an operation, one of KINDS."""
    name = operation.name.partition(".")[2]
    return "products" if name in _PRODUCTS else "moved" if name in _MOVED else "elementwise"


def _is_float(value: Any) -> bool:
    return any(kind.startswith(("f", "bf", "complex")) for kind in stablehlo.dtypes([value]))


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


def _by_line(walk: _Walk, traffic: Mapping[Calls, Fraction]) -> Iterator[dict[str, Any]]:
    """Yields the work and the traffic of each line, with the lines that call its function, and the shape of a product
    of it that a mask hides in part. A line without a file is that of the grader's own code."""
    found: dict[tuple[str, int], dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    callers: dict[tuple[str, int], dict[tuple[str, int], None]] = defaultdict(dict)
    for places in {**walk.lines, **traffic}:
        (file, _, line), *around = places or [("", "", 0)]
        for name, total in {**walk.lines.get(places, {}), "traffic": traffic.get(places, Fraction(0))}.items():
            found[file, line][name] += total
        if around:
            callers[file, line][around[0][0], around[0][2]] = None
    masked = {(places[0][0], places[0][2]): shape for places, shape in walk.masked.items() if places}
    for (file, line), kinds in sorted(found.items()):
        costs = {name: math.ceil(kinds[name]) for name in (*KINDS, "traffic")}
        yield {"file": file, "line": line, **costs, "callers": sorted(callers[file, line]),
               "masked": masked.get((file, line), ())}  # fmt: skip


def bill(execution: "Execution") -> Any:
    """Returns the bill of a program as JSON text, an array of bytes. Raises UncountableError."""
    from grader.worker.measures import MEASURES

    walk = _Walk(execution)
    kinds = dict.fromkeys(KINDS, 0)
    for run, total in execution.costs:
        kinds[kind(run.operation)] += total
    read = written = Fraction(0)
    traffic: dict[Calls, Fraction] = defaultdict(Fraction)
    for array, reads, writes in memory.traffic(walk.computed):
        read, written = read + reads, written + writes
        traffic[walk.computed[array]] += reads + writes
    loops = [each for each in stablehlo.operations(execution.compiled.parsed) if each.name == counting.LOOP]
    devices = len(execution.compiled.devices)
    sent = execution.collectives if devices > 1 else []
    figures = {
        **kinds,
        "peak_bytes": memory.peak(walk.timeline),
        **{name: int(MEASURES[name](execution)) for name in ("bytes_of_outputs", "operations")},
        "carried_bytes": max(map(stablehlo.carried_bytes, loops), default=0),
        "read_bytes": math.ceil(read),
        "written_bytes": math.ceil(written),
        "chain": walk.chain,
        "collectives": math.ceil(sum(each.times for each in sent)),
        "sent_bytes": math.ceil(sum(each.times * each.size for each in sent)),
        "hops": math.ceil(sum(each.times * each.hops(devices) for each in sent if each.kind == "collective-permute")),
    }
    text = json.dumps({"figures": figures, "lines": list(_by_line(walk, traffic))})
    return np.frombuffer(text.encode(), np.uint8)
