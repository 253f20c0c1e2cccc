"""What a step in an open task comes to: a score with its parts, or what to do next, for a person and for a program."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from grader.task import Task

MISS = 10.0  # times the distance of the truth from an 80% interval: 2 / (1 - 0.8) (Gneiting and Raftery 2007)


class Part(NamedTuple):
    """A part of a score: its points, and what they are for."""

    points: int
    what: str


class Verbatim(str):
    """Lines that are shown as they are, such as a diff."""


@dataclass(frozen=True)
class Told:
    """What a step comes to.

    Attributes:
        blocks: What a person reads: paragraphs, parts of a score, and lines as they are.
        facts: The same for a program.
        passed: Whether there is a score that is in a class.
    """

    blocks: tuple[str | Part, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    passed: bool = False


@dataclass(frozen=True)
class Score:
    """A score, of which less is better.

    Attributes:
        parts: What it is made of.
        refused: Why there is no score, as a sentence; empty if there is one.
        facts: What is known of it, by name.
    """

    parts: tuple[Part, ...] = ()
    refused: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> int | None:
        """The score; None if it was refused."""
        return None if self.refused else sum(part.points for part in self.parts)

    def told(self, task: Task, *lines: str) -> Told:
        """Returns what to say of it, with further paragraphs."""
        value = self.value
        standard = "" if value is None else task.standard(value)
        said = f"no score. {self.refused}" if value is None else f"{value} {task.unit}, {standard or 'in no class'}"
        facts = {"score": value, "class": standard or None, "error": self.refused or None, **self.facts}
        return Told((f"{task.title}: {said}", *self.parts, *lines), facts, bool(standard))


def interval_cost(interval: tuple[float, float], truth: float) -> tuple[float, float]:
    """Returns what an 80% interval costs: its width, and MISS times as much as the truth lies outside of it."""
    low, high = interval
    return high - low, MISS * max(low - truth, truth - high, 0.0)


def begun(new: list[Path], says: str) -> Told:
    """Returns what to say when the files of an attempt were written: their paths, and what to do."""
    return Told((*(Verbatim(f"new   {path}") for path in new), says), {"new": [str(path) for path in new]})
