"""A failing case shrinks to the smallest that fails."""

import subprocess
import sys

import pytest

from grader.course import cases, catalog, shrinking
from tests.conftest import ROOT

pytestmark = pytest.mark.fast


def test_a_failing_case_shrinks_to_the_smallest_that_fails():
    problem = catalog.find("07")
    largest = cases.make(problem, "plain", {"T": 9, "V": 11}, 0, 5)
    smallest = shrinking.shrink(problem, largest, 0, lambda case: case.sizes["T"] >= 6, seconds=20)
    assert smallest.sizes == {"T": 6, "V": 5}


def test_shrinking_keeps_to_its_time_and_never_returns_a_larger_case():
    problem = catalog.find("07")
    case = cases.make(problem, "plain", {"T": 6, "V": 5}, 0, 0)
    assert shrinking.shrink(problem, case, 0, lambda case: True, seconds=0) is case


DRAW = """
import sys
sys.path[:0] = [{root!r}, "."]
{more}
from grader.course import cases, catalog, shrinking
problem, seen = catalog.find("07"), []
largest = cases.make(problem, "plain", {{"T": 9, "V": 11}}, 0, 5)
smallest = shrinking.shrink(problem, largest, 0, lambda case: seen.append(case) or case.sizes["T"] >= 6, seconds=20)
print([(case.sizes, case.seed) for case in [*seen, smallest]])
"""


def test_a_search_depends_on_no_other_code_and_leave_no_files(tmp_path):
    """Hypothesis would draw numbers that occur in loaded modules, and remember them in the current folder."""
    (tmp_path / "other.py").write_text(f"NUMBERS = {list(range(2000))}")
    drawn = [
        subprocess.run(
            [sys.executable, "-B", "-c", DRAW.format(root=str(ROOT), more=more)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for more in ("", "import other")
    ]
    assert drawn[0] == drawn[1]
    assert [path.name for path in tmp_path.iterdir()] == ["other.py"]
