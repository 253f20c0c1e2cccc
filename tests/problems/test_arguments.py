"""A number that a learner's function takes differs between the cases of a problem, so that a constant in its place
fails."""

from collections import defaultdict
from typing import Any

import pytest

from grader.course import cases, catalog
from grader.problem import Problem

SEEDS = range(1, 7)
# Arguments that have one value each, so that a file that ignores them passes, and why.
CONSTANT = {
    "55": {"threshold"},  # the hash functions are sought for pairs of texts whose similarity is just one half
}
DIGITS = 4  # of a setting on a report
EXACT = {("56", "threshold")}  # a setting that is one of the drawn scores


@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_no_argument_is_the_same_in_all_cases(problem: Problem):
    arguments = {name for entry in problem.entries for name in (*entry.arguments, *(entry.construct or ()))}
    found: dict[str, set[Any]] = defaultdict(set)
    for seed in SEEDS:
        for group in problem.cases:
            for case in cases.draw(problem, group, seed):
                for name, value in case.values.items():
                    if name in arguments and isinstance(value, bool | int | float):
                        found[name].add(value)
                if problem.label == "43":  # the last arguments of its only entry have defaults
                    for name in set(arguments).difference(case.values):
                        found[name].add("its default")
    assert {name for name, values in found.items() if len(values) == 1} == CONSTANT.get(problem.label, set())


@pytest.mark.parametrize("problem", catalog.problems(), ids=lambda problem: problem.name)
def test_settings_have_few_digits(problem: Problem):
    for seed in (0, 1):
        for group in problem.cases:
            for case in cases.draw(problem, group, seed):
                for name, value in case.values.items():
                    if isinstance(value, float) and (problem.label, name) not in EXACT:
                        assert value == float(f"{value:.{DIGITS}g}"), name
