"""The roofline: the shortest time that a machine needs for the arithmetic of a program, and for its memory traffic."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.cost.figures import TRAFFIC, WORK, Figures

LEFT_OUT = (
    "These are lower limits. They leave out the start of each operation, which takes longer than all else in a small "
    "program, that caches save traffic, and that elementwise operations are slower than the peak rate."
)


@dataclass(frozen=True)
class Machine:
    """A machine: its peak rates, in operations and bytes a second, and where these are from."""

    name: str
    rate: float
    bandwidth: float
    source: str


@dataclass(frozen=True)
class Times:
    """The shortest times of a program on a machine, in seconds."""

    machine: Machine
    arithmetic: float
    memory: float

    @property
    def binds(self) -> str:
        """What takes longer, and so decides: `arithmetic` or `memory`."""
        return "arithmetic" if self.arithmetic >= self.memory else "memory"


@cache
def machines() -> tuple[Machine, ...]:
    """Returns the machines of `machines.toml`."""
    rows = tomllib.loads(Path(__file__).with_name("machines.toml").read_text(encoding="utf-8"))["machine"]
    return tuple(Machine(**row) for row in rows)


def times(figures: Figures) -> list[Times]:
    """Returns the times of a program on each machine."""
    return [Times(each, WORK.of(figures) / each.rate, TRAFFIC.of(figures) / each.bandwidth) for each in machines()]
