"""The collectives that a run of a program on several devices executes: the arrays of each, and the number of
executions.

XLA adds collectives to those that a program names, so they are read from the text of the optimized program. The number
of iterations of a loop comes from its counter (see `counting.py`).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from grader.worker import stablehlo
from grader.worker.counting import NAME, WRITTEN, UncountableError

_BYTES = {
    "pred": 1,
    "s8": 1,
    "u8": 1,
    "bf16": 2,
    "f16": 2,
    "s16": 2,
    "u16": 2,
    "s32": 4,
    "u32": 4,
    "f32": 4,
    "s64": 8,
    "u64": 8,
    "f64": 8,
    "c64": 8,
    "c128": 16,
}
FEW = 4  # numbers: a loss and the number of targets fit, and no part of a model in a case is as small
_COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|all-to-all|collective-broadcast|collective-permute|"
    r"ragged-all-to-all|reduce-scatter)"
    r"(?:-start)?\((.*)"
)
_OF_REPLICAS = ("all-reduce", "all-gather", "reduce-scatter")  # unless they say that their groups are of devices
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLED = re.compile(
    r"(body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)|branch_computations=\{(.*?)\}"
)


@dataclass(frozen=True, eq=False)
class Collective:
    """A collective of a compiled program.

    Attributes:
        kind: The name of the operation, such as `all-reduce`.
        arrays: The elements and the bytes of each array that it produces on a device.
        groups: The groups of devices that take part.
        times: The number of its executions.
        written: Whether the program itself calls it, so that XLA did not add it.
    """

    kind: str
    arrays: Sequence[tuple[int, int]]
    groups: Any
    times: Fraction
    written: bool = False

    @property
    def size(self) -> int:
        """The bytes that one execution produces on each device."""
        return sum(size for _, size in self.arrays)

    @property
    def is_small(self) -> bool:
        """Whether it exchanges only a loss, counts or norms, alone or in one vector."""
        return all(elements <= FEW for elements, _ in self.arrays)

    def hops(self, devices: int) -> int:
        """Returns the largest distance that a permutation sends around a ring of this many devices, in steps."""
        away = (self.groups[:, -1] - self.groups[:, 0]) % devices
        return int(np.minimum(away, devices - away).max(initial=0))


@dataclass
class _Computation:
    """A part of a compiled program: its collectives, and the parts that it calls, each with the number of its runs for
    one run of this."""

    collectives: list[tuple[str, str, str]] = field(default_factory=list)
    calls: list[tuple[str, Fraction | None]] = field(default_factory=list)


def collectives(text: str, devices: int, rates: Mapping[str, Sequence[Fraction]] | None = None) -> list[Collective]:
    """Returns every collective in the text of an optimized program. `rates` are those of its loops and branches, from
    `counting.rates`.

    Raises UncountableError if one is in a loop with an unknown number of iterations.
    """
    parts, entry = _parts(text, rates or {})
    found: list[Collective] = []

    def walk(name: str, times: Fraction | None) -> None:
        for results, kind, rest in parts[name].collectives:
            if times is None:
                raise UncountableError("a collective is in a loop whose turns cannot be counted")
            found.append(
                Collective(kind, list(_arrays(results)), _groups(kind, rest, devices), times, _is_written(rest))
            )
        for callee, rate in parts[name].calls:
            if callee in parts:
                walk(callee, None if times is None or rate is None else times * rate)

    walk(entry, Fraction(1))
    return found


def _parts(text: str, rates: Mapping[str, Sequence[Fraction]]) -> tuple[dict[str, _Computation], str]:
    """Returns the computations of a compiled program by name, and the name of the entry computation."""
    parts: dict[str, _Computation] = {}
    entry, current = "", _Computation()
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = parts[header[2]] = _Computation()
            entry = header[2] if header[1] else entry
            continue
        current.collectives += _COLLECTIVE.findall(line)
        called = [(kind or "branch", name) for kind, one, several in _CALLED.findall(line)
                  for name in ([one] if one else re.findall(r"%?([\w.\-]+)", several))]  # fmt: skip
        if called:
            current.calls += _with_rates(line, called, rates)
    return parts, entry


def _with_rates(
    line: str, called: list[tuple[str, str]], rates: Mapping[str, Sequence[Fraction]]
) -> Iterator[tuple[str, Fraction | None]]:
    counter = re.search(
        rf'metadata=\{{op_name="(?:[^"\\]*/)?({NAME}\d+)"', line
    )  # no quoted text of a submission matches
    counted = rates.get(counter[1]) if counter else None
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', line)
    turns = counted[0] if counted else Fraction(int(known[1])) if known else None
    branches = 0
    for kind, name in called:
        if kind == "body":
            yield name, turns
        elif kind == "condition":
            yield name, None if turns is None else turns + 1
        elif kind in ("calls", "to_apply"):
            yield name, Fraction(1)
        else:  # without counters, each branch counts as taken
            yield name, counted[branches] if counted else Fraction(1)
            branches += 1


def _is_written(text: str) -> bool:
    """Returns whether a collective, or each of those that XLA has joined, has a name of `counting.plain`:
    `call.3/written_0`, or `call.3/(written_0:written_2)`."""
    found = re.search(r'metadata=\{op_name="((?:[^":()]*/)?)\(?([^"]*?)\)?"', text)
    names = found[2].split(":") if found else []
    return bool(names) and all(re.fullmatch(rf"(?:.*/)?{WRITTEN}\d+", name) for name in names)


def _arrays(results: str) -> Iterator[tuple[int, int]]:
    for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", results):
        elements = math.prod(int(n) for n in shape.split(",") if n)
        if dtype not in _BYTES:
            raise UncountableError(f"a collective sends numbers of type {dtype}, whose bytes the grader does not count")
        yield elements, _BYTES[dtype] * elements


def _groups(kind: str, text: str, devices: int) -> Any:
    """Returns the groups of devices in the text of a collective. Text of another form than these means one group of
    all.

    `{{0,1},{2,3}}`; `[2,2]<=[2,2]T(1,0)`, which counts and transposes; `mesh['a'=2,'b'=2] {'a'}`, which names axes.
    """
    if kind in _OF_REPLICAS and "channel_id=" in text and "use_global_device_ids=true" not in text:
        return np.arange(devices)[None]  # its groups are of replicas, each with all devices
    if listed := re.search(r"(?:replica_groups|source_target_pairs)=\{(\{.*?\})\}", text):
        return np.array([[int(n) for n in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])])
    if counted := re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text):
        groups, shape, order = ([int(n) for n in part.split(",") if n] for part in counted.groups(""))
        return np.arange(devices).reshape(shape).transpose(order or None).reshape(groups)
    if named := re.search(r"replica_groups=mesh\[((?:'\w+'=\d+,?)+)\] \{((?:'\w+',?)+)\}", text):
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", named[1])}
        return stablehlo.groups_along(sizes, re.findall(r"'(\w+)'", named[2]))
    return np.arange(devices)[None]
