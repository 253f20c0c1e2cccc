"""The figures of other correct programs: those of the reference and of other styles, which come with a problem as data,
and those of a learner's own attempts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.cost.bill import Bill, Line, count
from grader.cost.figures import COMPARED, NAMES, TRAFFIC, WORK, Figure, Figures, compared
from grader.course import catalog, imports
from grader.errors import CourseError
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.problem import Problem

FILE = "costs.json"  # in the folder of a problem
REFERENCE = "reference"
NEAR = 0.05  # of a figure: a smaller difference is none
_KINDS = {"products": "matrix products", "elementwise": "elementwise operations", "moved": "numbers moved"}


@dataclass(frozen=True)
class Known:
    """The figures of the correct programs of a problem by name, and the version of JAX that they were counted with."""

    counted_with: str = ""
    programs: Mapping[str, Figures] = field(default_factory=dict)

    @property
    def reference(self) -> Figures | None:
        """The reference's."""
        return self.programs.get(REFERENCE)

    @property
    def others(self) -> list[Figures]:
        """Those of the other styles."""
        return [figures for name, figures in self.programs.items() if name != REFERENCE]

    def counted_otherwise(self, bill: Bill) -> str:
        """Returns a sentence if these programs were counted with another version of JAX than a bill; else nothing."""
        if self.counted_with in ("", bill.counted_with):
            return ""
        return (
            f"The other programs were counted with {self.counted_with}, this one with {bill.counted_with}: the same "
            "code may be traced to slightly different programs."
        )


def known(problem: Problem) -> Known:
    """Returns the figures that come with a problem; none if it has no such file. Raises CourseError."""
    path = problem.folder / FILE
    if not path.is_file():
        return Known()
    again = f"`grade cost {problem.label} --ship` writes it again."
    try:
        found = Known(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise CourseError(f"{path} cannot be read: {error}. {again}") from None
    if any(set(figures) != set(NAMES) for figures in found.programs.values()):
        raise CourseError(f"{path} has other figures than this version of the grader. {again}")
    return found


def write(problem: Problem, workers: Workers) -> Path | None:
    """Writes the figures of the reference and of the other styles, as far as they can be counted. Returns the path, or
    None if there are none. Raises CourseError if there is no reference."""
    found = {name: bill for name, source in programs(problem).items() if (bill := _bill(problem, source, workers))}
    if not found:
        return None
    path = problem.folder / FILE
    versions = {bill.counted_with for bill in found.values()}
    figures = {name: bill.figures for name, bill in found.items()}
    path.write_text(
        json.dumps({"counted_with": versions.pop(), "programs": figures}, indent=1) + "\n", encoding="utf-8"
    )
    return path


def programs(problem: Problem) -> dict[str, Submission]:
    """Returns the reference and the correct programs in other styles, as submissions by name."""
    found = {REFERENCE: submission_.reference(problem)}
    for path in catalog.styles(problem):
        sources = imports.with_imports(problem.name, catalog.text_of(path), catalog.references(problem))
        found[path.stem.removeprefix(f"{problem.name.partition('_')[0]}_")] = Submission(path.name, sources)
    return found


def _bill(problem: Problem, source: Submission, workers: Workers) -> Bill | None:
    bill = count(problem, source, workers)
    return bill if isinstance(bill, Bill) else None


@dataclass(frozen=True)
class Row:
    """One figure of several programs: this one's, the reference's (None if it is not known), those of other styles, and
    those of earlier attempts."""

    figure: Figure
    own: int
    reference: int | None
    others: Sequence[int]
    attempts: Sequence[int]

    @property
    def all(self) -> list[int]:
        """The values of all programs."""
        reference = [] if self.reference is None else [self.reference]
        return [self.own, *reference, *self.others, *self.attempts]

    def places(self) -> dict[int, float]:
        """Returns where each value lies on a logarithmic line, from 0 to 1."""
        from math import log

        low, high = log(min(self.all) + 1), log(max(self.all) + 1)
        return {value: (log(value + 1) - low) / ((high - low) or 1) for value in self.all}


def rows(figures: Figures, others: Known, attempts: Sequence[Mapping[str, int]] = ()) -> list[Row]:
    """Returns the comparison of a program, figure by figure. `attempts` are the compared figures of earlier ones.
    Figures that are 0 everywhere are left out."""
    own = compared(figures)
    reference = others.reference and compared(others.reference)
    styles = [compared(each) for each in others.others]
    found = [
        Row(
            figure,
            own[figure.name],
            reference[figure.name] if reference else None,
            [each[figure.name] for each in styles],
            [each[figure.name] for each in attempts if figure.name in each],
        )
        for figure in COMPARED
    ]
    return [row for row in found if any(row.all)]


def explained(bill: Bill, others: Known) -> str:
    """Returns in a few sentences what the differences from the reference are made of, in operations and in traffic.
    Empty if the reference's figures are not known."""
    reference = others.reference
    if not reference:
        return ""
    return " ".join(filter(None, (_of_operations(bill, reference), _of_traffic(bill, reference))))


def _of_operations(bill: Bill, reference: Figures) -> str:
    own, expected = WORK.of(bill.figures), WORK.of(reference)
    if not _differ(own, expected):
        return "It takes about as many operations as the reference."
    more = own > expected
    differences = {kind: bill.figures[kind] - reference[kind] for kind in _KINDS}
    kind = max(differences, key=lambda name: differences[name] if more else -differences[name])
    text = (
        f"It takes {own / expected:.2g} times the operations of the reference. Most of the difference is "
        f"{_KINDS[kind]}: {bill.figures[kind]:,}, the reference {reference[kind]:,}."
    )
    lines = [line for line in bill.lines if line.file]
    return f"{text} {_of_lines(lines, kind, bill.figures[kind])}" if more and lines else text


def _of_lines(lines: Sequence[Line], kind: str, whole: int) -> str:
    """Returns which of some lines of the program have most of its operations of a kind, of which there are `whole`."""
    most = max(lines, key=lambda line: getattr(line, kind))
    if len(most.callers) > 1:  # the same work is done in several places
        same = [line for line in lines if line.callers == most.callers and getattr(line, kind)]
        share = sum(getattr(line, kind) for line in same) / whole
        has = "Line {} has" if len(same) == 1 else "Lines {} have"
        numbers = _listed([line.line for line in same])
        called = _listed([number for _, number in most.callers])
        return f"{has.format(numbers)} {share:.0%} of them, in a function that is called in lines {called}."
    if kind == "products" and (masked := [line for line in lines if line.masked]):
        line = max(masked, key=lambda each: each.products)
        shape = " × ".join(map(str, line.masked))
        return f"Line {line.line} multiplies all of {shape} numbers, and a mask hides a part of them afterwards."
    return f"Line {most.line} has {getattr(most, kind) / whole:.0%} of them."


def _of_traffic(bill: Bill, reference: Figures) -> str:
    own, expected = TRAFFIC.of(bill.figures), TRAFFIC.of(reference)
    if not _differ(own, expected):
        return ""
    text = f"It reads and writes {own / expected:.2g} times the bytes of the reference."
    most = max((line for line in bill.lines if line.file), key=lambda line: line.traffic, default=None)
    return f"{text} Line {most.line} has {most.traffic / own:.0%} of them." if most and own > expected else text


def _differ(own: int, expected: int) -> bool:
    return expected > 0 and abs(own - expected) > NEAR * expected


def _listed(numbers: Sequence[int]) -> str:
    *most, last = map(str, sorted(set(numbers)))
    return f"{', '.join(most)} and {last}" if most else last
