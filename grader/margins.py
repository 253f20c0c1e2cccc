"""The safety margins of the tolerances: how far the errors of correct programs, and of wrong ones, are from them."""

from dataclasses import dataclass, replace

import numpy as np

from grader.judge.judge import Comparison
from grader.problem import Check
from grader.wire.compare import Leaf, errors


@dataclass
class Margin:
    """The safety margin of one check's tolerance. Errors are in units of the tolerance.

    `right` is the largest error of a correct program, and `wrong` the smallest error of a wrong one. `room` is the
    factor by which they must stay away from 1.
    """

    check: str
    room: float
    right: float = 0.0
    wrong: float = float("inf")

    @property
    def wide_enough(self) -> bool:
        return self.right * self.room <= 1 and self.wrong >= self.room


def can_fail(leaf: Leaf, check: Check) -> bool:
    """Returns whether numbers that no program should get away with are rejected in place of the reference's."""
    far_off = 1000 * (np.abs(np.asarray(leaf.values, np.float64)) + 1)
    return bool((errors(leaf, replace(leaf, values=far_off), check.tolerance, check.compare) > 1).any())


def _errors(comparison: Comparison, margins: list[Margin]) -> list[tuple[float, Margin, bool]]:
    """Returns the error of each outcome, the margin of its check, and whether the check rejected it.

    Leaves out failures, and outcomes with a gradient by finite differences.
    """
    by_check = dict(zip([id(check) for check in comparison.problem.checks], margins, strict=True))
    items = [item for item in comparison.evidence if not (item.outcome.failure or item.outcome.numeric)]
    return [(comparison.error(item), by_check[id(item.check)], item.wrong) for item in items]


def measure_correct(margins: list[Margin], comparison: Comparison) -> None:
    """Takes the errors of a correct program into account."""
    for error, margin, _ in _errors(comparison, margins):
        margin.right = max(margin.right, error)


def measure_wrong(margins: list[Margin], comparison: Comparison) -> None:
    """Takes a wrong program into account: its largest error, since one clear rejection is enough."""
    measured = _errors(comparison, margins)
    rejected = [(error, margin) for error, margin, wrong in measured if wrong]
    if rejected and len(measured) == len(comparison.evidence):
        error, margin = max(rejected, key=lambda pair: pair[0])
        margin.wrong = min(margin.wrong, error)
