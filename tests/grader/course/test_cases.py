"""Cases: the same for the same seed, simplest first; a failing case shrinks to the smallest that fails."""

import subprocess
import sys

import numpy as np
import pytest

from grader.course import cases, catalog
from tests.conftest import ROOT

pytestmark = pytest.mark.fast


@pytest.fixture(params=catalog.names())
def problem(request):
    return catalog.load(request.param)


def same(left, right):
    return np.array_equal(left, right, equal_nan=np.asarray(left).dtype.kind == "f")


def test_the_seed_decides_the_cases(problem):
    for group in problem.cases:
        first, again, other = (cases.draw(problem, group, seed) for seed in (0, 0, 1))
        assert 1 <= len(first) <= problem.cases[group].draws
        for left, right in zip(first, again, strict=True):
            assert left.sizes == right.sizes
            assert all(same(value, right.values[name]) for name, value in left.values.items())
        differ = [not same(value, other[0].values[name]) for name, value in first[0].values.items()]
        # Where a case holds only sizes, the probe draws parameters and batches from the case's seed.
        assert any(differ) or first[0].seed != other[0].seed, "a secret seed must give other cases"


def test_a_secret_case_gives_away_the_seed_of_no_other(problem):
    """Code that cannot be traced is told the seed of its case, and could draw the parameters of another from it."""
    seeds = [case.seed for drawn in cases.draw_all(problem, 1).values() for case in drawn]
    assert len(set(seeds)) == len(seeds)


def test_the_first_case_is_the_simplest(problem):
    for group, family in problem.cases.items():
        assert cases.draw(problem, group, 0)[0].sizes == {name: options[0] for name, options in family.sizes.items()}


def test_a_secret_seed_draws_the_sizes_of_an_only_case():
    """A submission that knows the sizes of the case that is measured could work for these only."""
    for problem, group in (("18", "large"), ("49", "long")):
        drawn = [cases.draw(catalog.find(problem), group, seed) for seed in range(1, 20)]
        assert {len(only) for only in drawn} == {1}
        assert {only[0].sizes["T"] for only in drawn} == set(catalog.find(problem).cases[group].sizes["T"])


def test_sizes_that_could_be_confused_differ():
    """Two axes of the same size would let a transposed array pass."""
    story = cases.draw(catalog.find("06"), "cases", 0)[0].values
    assert len({len(story["token_ids"]), story["vocab_size"], story["d_model"], story["num_heads"], story["d_ff"]}) == 5


def test_a_failing_case_shrinks_to_the_smallest_that_fails():
    problem = catalog.find("07")
    largest = cases.make(problem, "plain", {"T": 9, "V": 11}, 0, 5)
    smallest = cases.shrink(problem, largest, 0, lambda case: case.sizes["T"] >= 6, seconds=20)
    assert smallest.sizes == {"T": 6, "V": 5}


def test_shrinking_keeps_to_its_time_and_never_returns_a_larger_case():
    problem = catalog.find("07")
    case = cases.make(problem, "plain", {"T": 6, "V": 5}, 0, 0)
    assert cases.shrink(problem, case, 0, lambda case: True, seconds=0) is case


DRAW = """
import sys
sys.path[:0] = [{root!r}, "."]
{more}
from grader.course import cases, catalog
print([(case.sizes, case.seed) for seed in range(30) for case in cases.draw(catalog.find("07"), "plain", seed)])
"""


def test_cases_depend_on_no_other_code_and_leave_no_files(tmp_path):
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
