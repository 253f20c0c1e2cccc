"""A learner's records for a terminal."""

from collections.abc import Mapping, Sequence
from math import log

import click

from commandline import terminal
from commandline.text import counted
from grader.cost import records
from grader.cost.compare import Known
from grader.cost.figures import COMPARED, PEAK, TRAFFIC, WORK, Figures
from grader.cost.records import Counted
from grader.problem import Problem

_ROWS, _COLUMNS = 8, 44
ON_FRONT, BEHIND, REFERENCE, OTHER = "●", "·", "R", "o"


def table(rows: Sequence[tuple[Problem, Sequence[Counted]]]) -> str:
    """Returns one line for each problem with records: the fewest operations, the least memory and the least traffic."""
    lines = [f"{'':36}{'operations':>14}{'memory':>14}{'traffic':>14}"]
    for problem, attempts in rows:
        best = records.best(attempts)
        values = [best[each.name].figures[each.name] if each.name in best else 0 for each in (WORK, PEAK, TRAFFIC)]
        title = f"{problem.label}  {problem.title}"
        title = title if len(title) <= 35 else f"{title[:34]}…"
        lines.append(f"{title:36}" + "".join(f"{value:>14,}" for value in values))
    return "\n".join(lines)


def of_problem(problem: Problem, attempts: Sequence[Counted], others: Known) -> str:
    """Returns the records of a problem, with their dates, and its front."""
    best = records.best(attempts)
    passed = sum(each.passed for each in attempts)
    title = f"Problem {problem.label}, {problem.title}: your records in {counted(passed, 'program')} that passed"
    lines = [click.style(line, bold=True) for line in terminal.wrap(title, terminal.width())]
    for figure in COMPARED:
        if figure.name in best:
            each = best[figure.name]
            value = each.figures[figure.name]
            lines.append(f"  {figure.title:24}{value:>16,}  {figure.unit:12}{each.entry.day.isoformat()}")
    return "\n".join([*lines, "", *_front(attempts, others)])


def _front(attempts: Sequence[Counted], others: Known) -> list[str]:
    """Draws operations against memory, both on logarithmic axes."""
    front = records.front(attempts)
    passed = [each.figures for each in attempts if each.passed]
    points = [(_point(each), BEHIND) for each in passed]
    points += [(_of(each), OTHER) for each in others.others]
    points += [(_of(others.reference), REFERENCE)] if others.reference else []
    points += [(_point(each.figures), ON_FRONT) for each in front]
    xs, ys = ([point[axis] for point, _ in points] for axis in (0, 1))
    grid = [[" "] * _COLUMNS for _ in range(_ROWS)]
    for (x, y), mark in points:
        grid[_ROWS - 1 - _place(y, ys, _ROWS)][_place(x, xs, _COLUMNS)] = mark
    lines = ["Memory at the peak against operations; further left and down is less"]
    for number, row in enumerate(grid):
        label = f"{max(ys):,}" if number == 0 else f"{min(ys):,}" if number == _ROWS - 1 else ""
        lines.append(f"{label:>14} │{''.join(row)}".rstrip())
    lines.append(f"{'':14} └{'─' * _COLUMNS}")
    low, high = f"{min(xs):,}", f"{max(xs):,}"
    lines.append(f"{'':16}{low}{high:>{_COLUMNS - len(low)}}")
    marks = {ON_FRONT: "yours, on the front", BEHIND: "yours", REFERENCE: "the reference", OTHER: "another program"}
    used = {mark for _, mark in points}
    return [*lines, "  " + ", ".join(f"{mark} {says}" for mark, says in marks.items() if mark in used)]


def _point(figures: Mapping[str, int]) -> tuple[int, int]:
    return figures[WORK.name], figures[PEAK.name]


def _of(figures: Figures) -> tuple[int, int]:
    return WORK.of(figures), PEAK.of(figures)


def _place(value: int, values: Sequence[int], places: int) -> int:
    low, high = log(min(values) + 1), log(max(values) + 1)
    return round((log(value + 1) - low) / ((high - low) or 1) * (places - 1))
