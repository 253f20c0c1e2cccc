"""Counts how often each operation of a program ran, by running the program once more with counters in its loops and
branches.

XLA counts the body of a loop once if it cannot tell how many iterations it has. Here a program gets an array of
counters, which is passed through all functions, loops and branches that contain loops or branches, and is its last
output. A loop adds 1 to its counter in each iteration, and a branch adds 1 when it is taken. The number of runs of a
function is the sum over its calls.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from grader.worker import annotations, cost, stablehlo
from grader.worker.stablehlo import ir

LOOP = "stablehlo.while"
"""The name of the operation of a loop."""
BRANCHES = ("stablehlo.case", "stablehlo.if")
MANUAL = "sdy.manual_computation"
NAME = "counter_"  # and the number of a loop's counter: the name of the loop in the compiled program
WRITTEN = "written_"  # and a number: the name of a collective that the program itself calls, in the compiled program
COMPOSITE = "stablehlo.composite"
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "collective_permute", "all_to_all", "collective_broadcast")


class UncountableError(Exception):
    """The program has a form that no counter can be put into. The message names it for the learner."""


@dataclass(frozen=True, eq=False)
class Run:
    """An operation of a program, and how often a run of the program executed it."""

    operation: Any
    times: int


def has_control_flow(module: Any) -> bool:
    """Returns whether a parsed program has loops or branches. If not, each of its functions runs as often as it is
    called."""
    return any(operation.name in (LOOP, *BRANCHES) for operation in stablehlo.operations(module))


def with_counters(module: bytes) -> bytes:
    """Returns the program with counters, an int64 array, as one more output. Raises UncountableError."""
    parsed = stablehlo.parsed(module)
    with parsed.context, ir.Location.unknown():
        _make_plain(parsed)
        _Instrumented(parsed).thread()
        parsed.operation.verify()
        return stablehlo.serialized(parsed)


def plain(module: bytes) -> bytes:
    """Returns the program that XLA runs for the counting.

    Each composite is replaced by a call of its decomposition, because XLA has operations of its own for some names of
    composites, whatever they decompose to. Each collective that the program calls has a name, because XLA adds others.
    All notes to XLA are removed.
    """
    parsed = stablehlo.parsed(module)
    with parsed.context, ir.Location.unknown():
        _make_plain(parsed)
        return stablehlo.serialized(parsed)


def _make_plain(parsed: Any) -> None:
    """Replaces each composite operation of `parsed` by a call of its decomposition, and names the locations of its
    collectives.

    Call it inside the module's MLIR context. Removes all other locations and the notes to XLA.
    """
    stablehlo.strip_locations(parsed)  # a submission may have named them
    annotations.strip(parsed)
    operations = list(stablehlo.operations(parsed))
    for number, operation in enumerate(
        each for each in operations if each.name.removeprefix("stablehlo.") in COLLECTIVES
    ):
        operation.location = ir.Location.name(f"{WRITTEN}{number}")
    for old in [each for each in operations if each.name == COMPOSITE]:
        kinds, attributes = [result.type for result in old.results], {"callee": old.attributes["decomposition"]}
        new = ir.Operation.create("func.call", kinds, list(old.operands), attributes, ip=ir.InsertionPoint(old))
        for before, after in zip(old.results, new.results, strict=True):
            before.replace_all_uses_with(after)
        old.erase()


def runs(module: Any, counters: Sequence[int]) -> Iterator[Run]:
    """Yields every operation of a parsed program outside of reducers, and how often it ran. `counters` are those of a
    run."""
    first = first_counters(module)
    functions = stablehlo.functions(module)
    times = dict.fromkeys(functions, 0) | {"main": 1}

    def inside(block: Any, count: int) -> Iterator[Run]:
        for view in block.operations:
            operation = view.operation
            yield Run(operation, count)
            blocks = [region.blocks[0] for region in operation.regions]
            if operation.name == LOOP:
                turns = int(counters[first[operation]])
                yield from inside(blocks[0], turns + count)
                yield from inside(blocks[1], turns)
            elif operation.name in BRANCHES:
                for number, branch in enumerate(blocks):
                    yield from inside(branch, int(counters[first[operation] + number]))
            elif operation.name == MANUAL:
                yield from inside(blocks[0], count)
            elif blocks and operation.name not in cost.WITH_A_BODY:
                raise UncountableError(f"`{operation.name}` contains other operations")

    for name in stablehlo.callers_first(functions):
        for run in inside(functions[name].regions[0].blocks[0], times[name]):
            if callee := stablehlo.callee(run.operation):
                times[callee] += run.times
            yield run


def rates(module: Any, counters: Sequence[int]) -> dict[str, list[Fraction]]:
    """Returns, for each loop and each `case` or `if`, how often each of its bodies or branches runs per execution, on
    average.

    The keys are the names in a program that was compiled with counters.
    """
    first, found = first_counters(module), {}
    for run in runs(module, counters):
        if run.operation in first:
            number = first[run.operation]
            counted = counters[number : number + _regions_counted(run.operation)]
            found[f"{NAME}{number}"] = [Fraction(int(each), max(1, run.times)) for each in counted]
    return found


def first_counters(module: Any) -> dict[Any, int]:
    """Returns the number of the first counter of each loop and branch, in the order of the operations of a parsed
    module."""
    first, used = {}, 0
    for operation in stablehlo.operations(module):
        if operation.name in (LOOP, *BRANCHES):
            first[operation], used = used, used + _regions_counted(operation)
    return first


def _regions_counted(operation: Any) -> int:
    return 1 if operation.name == LOOP else len(operation.regions)


class _Instrumented:
    """A parsed module into which counters are put. Its context is entered."""

    def __init__(self, module: Any) -> None:
        first = first_counters(module)
        for operation, number in first.items():  # Python's operations lose their identity when others are erased
            operation.attributes[NAME] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
        self.functions = stablehlo.functions(module)
        self.size = sum(map(_regions_counted, first))
        # A loop of 2^31 turns takes seconds
        self.type = ir.RankedTensorType.get([self.size], ir.IntegerType.get_signless(64))
        # The functions that contain loops or branches, or call one that does
        self.counting: set[str] = set()
        for name in reversed(stablehlo.callers_first(self.functions)):
            if any(map(self._counts, stablehlo.inside(self.functions[name]))):
                self.counting.add(name)

    def thread(self) -> None:
        """Passes the counters through every function that needs them."""
        for name in self.counting:
            function = self.functions[name]
            block = function.regions[0].blocks[0]
            kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            inputs, results = list(kind.inputs), [*kind.results, self.type]
            if name == "main":
                at_start = ir.InsertionPoint.at_block_begin(block)
                counters = self._constant([0] * self.size, at_start)
            else:
                inputs.append(self.type)
                counters = block.add_argument(self.type, ir.Location.unknown())
                self._one_more(function, "arg_attrs")
            self._one_more(function, "res_attrs")
            function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
            self._through(block, counters)

    def _one_more(self, function: Any, name: str) -> None:
        if name in function.attributes:
            given = list(ir.ArrayAttr(function.attributes[name]))
            function.attributes[name] = ir.ArrayAttr.get([*given, ir.DictAttr.get({})])

    def _counts(self, operation: Any) -> bool:
        return NAME in operation.attributes or stablehlo.callee(operation) in self.counting

    def _through(self, block: Any, counters: Any, number: int | None = None) -> None:
        """Passes the counters through a block, which returns them as its last result. Adds 1 to the counter
        `number`."""
        *body, end = [view.operation for view in block.operations]
        if number is not None:
            start = ir.InsertionPoint(body[0] if body else end)
            one = self._constant([int(each == number) for each in range(self.size)], start)
            counters = ir.Operation.create("stablehlo.add", [self.type], [counters, one], ip=start).results[0]
        for operation in body:
            if self._counts(operation) or any(map(self._counts, stablehlo.inside(operation))):
                counters = self._replaced(operation, counters)
        ir.Operation.create(end.name, [], [*end.operands, counters], ip=ir.InsertionPoint(end))
        end.erase()

    def _replaced(self, old: Any, counters: Any) -> Any:
        """Replaces an operation by one that also takes and returns the counters. Returns the new counters."""
        name, operands = old.name, [*old.operands, counters]
        attributes = {each: old.attributes[each] for each in old.attributes}
        first = int(ir.IntegerAttr(attributes.pop(NAME)).value) if NAME in attributes else 0
        location = ir.Location.name(f"{NAME}{first}") if name in (LOOP, *BRANCHES) else ir.Location.unknown()
        blocks = [region.blocks[0] for region in old.regions]
        if name == LOOP:
            if any(map(self._counts, stablehlo.inside_block(blocks[0]))):
                raise UncountableError("the condition of a loop contains a loop or a branch; move it into the body")
        elif name in BRANCHES:
            operands.pop()  # branches see the values around them
        elif name == MANUAL:
            for each in ("in_shardings", "out_shardings"):
                attributes[each] = _one_replicated(attributes)[each]
        elif callee := stablehlo.callee(old):
            name, attributes = "func.call", {"callee": ir.FlatSymbolRefAttr.get(callee)}
        else:
            raise UncountableError(f"`{name}` contains a loop or a branch")
        kinds = [*(result.type for result in old.results), self.type]
        new = ir.Operation.create(
            name, kinds, operands, attributes, regions=len(blocks), loc=location, ip=ir.InsertionPoint(old)
        )
        for number, (block, region) in enumerate(zip(blocks, new.regions, strict=True)):
            block.append_to(region)
            if name in BRANCHES:
                self._through(block, counters, first + number)
            else:
                inner = block.add_argument(self.type, ir.Location.unknown())
                if name == MANUAL or number:  # the condition of a loop counts nothing
                    self._through(block, inner, first if name == LOOP else None)
        for before, after in zip(old.results, new.results, strict=False):
            before.replace_all_uses_with(after)
        old.erase()
        return new.results[len(kinds) - 1]

    def _constant(self, numbers: list[int], where: Any) -> Any:
        values: Any = np.array(numbers, np.int64)
        value = ir.DenseElementsAttr.get(values, type=self.type.element_type)
        return ir.Operation.create("stablehlo.constant", [self.type], [], {"value": value}, ip=where).results[0]


def _one_replicated(attributes: dict[str, Any]) -> dict[str, Any]:
    """Returns the shardings of a manual computation, with one more value that is the same on all devices."""
    texts = {each: str(attributes[each]) for each in ("in_shardings", "out_shardings")}
    mesh = re.search(r"<(@[\w.$-]+|@\".*?\"), ", "".join(texts.values()))
    if not mesh:
        raise UncountableError("a `shard_map` whose mesh has no name")
    return {
        each: ir.Attribute.parse(re.sub(r"(<\[)?\]>$", lambda end: f"{end[1] or ', '}<{mesh[1]}, [{{}}]>]>", text))
        for each, text in texts.items()
    }
