"""Whole arrays in a terminal: beside each other where they fit, and bounded."""

import click
import numpy as np
import pytest

from grader.course import catalog
from grader.judge.counterexample import Counterexample, compared
from grader.problem import FLOAT32, Case
from grader.report.full_arrays import arrays
from grader.wire.compare import Leaf, compare

pytestmark = pytest.mark.fast


def shown(expected: np.ndarray, got: np.ndarray, width: int = 80) -> list[str]:
    sides = [[Leaf("output", str(side.dtype), side)] for side in (expected, got)]
    mismatch = compare(*sides, FLOAT32)
    leaves = compared(catalog.find("02").checks[0], mismatch, [*sides, []], FLOAT32)
    lines = click.unstyle(arrays(Counterexample(Case({}), leaves), width)).splitlines()
    assert max(map(len, lines)) <= width
    return lines


def test_small_arrays_stand_beside_each_other():
    lines = shown(np.float32([[1, 2], [3, 4]]), np.float32([[1, 2.5], [np.nan, 4]]))
    assert any(line.split() == ["expected", "yours"] for line in lines)
    assert any(line.split() == ["1", "2", "1", "2.5*"] for line in lines)
    assert sum(line.count("*") for line in lines[2:]) == 2


def test_wide_arrays_stand_below_each_other():
    right = np.arange(60, dtype=np.float32).reshape(2, 30) / 7
    lines = shown(right, right + 1, 60)
    assert any(line.startswith("  yours, places 0 to ") for line in lines)
    assert sum(line.count("*") for line in lines[2:]) == 60, "every value is shown"


def test_large_arrays_are_cut_around_the_first_wrong_value():
    right = np.zeros((3, 200, 300), np.float32)
    wrong = right.copy()
    wrong[1, 150, 250] = 1
    lines = shown(right, wrong)
    assert sum(line.count("1*") for line in lines) == 1
    assert any("of 3 x 200 x 300 values" in line for line in lines)
    assert len(lines) < 2000
