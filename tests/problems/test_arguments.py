"""A number that a learner's function takes differs between the cases of a problem, so that a constant in its place fails."""

from collections import defaultdict
from typing import Any

import pytest

from grader.course import cases, catalog
from grader.problem import Problem

SEEDS = range(1, 7)
# Arguments that still have one value each: a file that ignores them passes.
CONSTANT = {
    "06": {"seed", "vocab_size", "d_model", "num_heads", "d_ff", "num_layers"},
    "09": {"epsilon"},
    "17": {"d_ff"},
    "19": {"d_model", "d_ff"},
    "29": {"num_tokens"},
    "36": {"num_layers", "d_model"},
    "39": {"num_kv_heads"},
    "40": {"vocab_size", "d_model", "num_heads", "num_kv_heads", "d_ff", "window", "rope_base", "norm_epsilon"},
    "41": {"vocab_size", "d_model", "num_heads", "num_layers", "max_T"},
    "55": {"threshold"},
    "58": {"context"},
    "66": {"d_rope"},
    "67": {"d_state"},
}


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
