"""The figures of a bill that programs are compared by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grader.cost.bill import KINDS

NAMES = (
    *KINDS, "peak_bytes", "bytes_of_outputs", "operations", "carried_bytes", "read_bytes", "written_bytes", "chain",
    "collectives", "sent_bytes", "hops",
)  # fmt: skip
"""The names of the figures of a bill."""
Figures = Mapping[str, int]
"""The figures of a bill by name."""


@dataclass(frozen=True)
class Figure:
    """A figure that programs are compared by: its name in data, its title, its unit, and how it is computed."""

    name: str
    title: str
    unit: str
    of: Callable[[Figures], int]


def _is(name: str) -> Callable[[Figures], int]:
    return lambda figures: figures[name]


WORK = Figure("work", "scalar operations", "operations", lambda figures: sum(figures[kind] for kind in KINDS))
PEAK = Figure("peak_bytes", "memory at the peak", "bytes", _is("peak_bytes"))
TRAFFIC = Figure(
    "traffic_bytes", "memory traffic", "bytes", lambda figures: figures["read_bytes"] + figures["written_bytes"]
)
COMPARED: Sequence[Figure] = (
    WORK,
    PEAK,
    TRAFFIC,
    Figure("chain", "longest chain", "operations", _is("chain")),
    Figure("operations", "size of the program", "operations", _is("operations")),
    Figure("collectives", "collectives", "collectives", _is("collectives")),
    Figure("sent_bytes", "collectives' results", "bytes", _is("sent_bytes")),
    Figure("hops", "hops", "hops", _is("hops")),
)
"""The figures that are compared and kept as records, the most important first."""


def compared(figures: Figures) -> dict[str, int]:
    """Returns the compared figures by name."""
    return {figure.name: figure.of(figures) for figure in COMPARED}
