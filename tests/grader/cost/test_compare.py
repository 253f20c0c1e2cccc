"""The figures that come with the problems are those that are counted now."""

from collections.abc import Mapping

import jax
import pytest

from grader.cost import bill, compare
from grader.cost.bill import Bill
from grader.cost.figures import COMPARED
from grader.cost.records import Counted, best, front
from grader.course import catalog, log
from grader.isolation.sandbox import ForkServer
from grader.problem import Problem

FEW = ("02", "03", "08", "18", "30", "39", "43", "47")
# Another version of JAX traces other programs. Their matrix products are the same.
COUNTED_NOW = f"JAX {jax.__version__}"


def check(problem: Problem, fork_server: ForkServer) -> None:
    known = compare.known(problem)
    counted: dict[str, Mapping[str, int]] = {}
    for name, source in compare.programs(problem).items():
        if isinstance(result := bill.count(problem, source, fork_server), Bill):
            counted[name] = result.figures
    assert counted.keys() == known.programs.keys(), f"`grade cost {problem.label} --ship` writes them again"
    for name, figures in counted.items():
        same = dict(known.programs[name]) if known.counted_with == COUNTED_NOW else {}
        assert figures == (same or figures | {"products": known.programs[name]["products"]}), name


@pytest.mark.parametrize("word", FEW)
def test_the_figures_of_a_problem(word: str, fork_server: ForkServer):
    check(catalog.find(word), fork_server)


@pytest.mark.thorough
@pytest.mark.parametrize("problem", catalog.problems(), ids=str)
def test_the_figures_of_every_problem(problem: Problem, fork_server: ForkServer):
    check(problem, fork_server)


def attempt(work: int, peak: int, *, passed: bool = True) -> Counted:
    figures = {figure.name: 1 for figure in COMPARED} | {"work": work, "peak_bytes": peak}
    return Counted(log.entry(log.COUNTED), figures, passed)


@pytest.mark.fast
def test_the_front_is_what_nothing_beats():
    fast, small, worse, wrong = attempt(10, 90), attempt(50, 20), attempt(60, 30), attempt(1, 1, passed=False)
    assert front([fast, worse, small, wrong]) == [fast, small]
    records = best([fast, worse, small, wrong])
    assert (records["work"], records["peak_bytes"]) == (fast, small)
    assert best([wrong]) == {}
