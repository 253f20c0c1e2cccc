"""Shrinks a failing case.

Hypothesis draws sizes and a seed, never the elements of an array: it would shrink those to zero, which hides errors. It
takes a tenth of a second to import, so only a case that fails imports this module.
"""

import contextlib
import random
import warnings
from collections.abc import Callable
from time import monotonic
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning, NoSuchExample
from hypothesis.internal.conjecture import providers

from grader.course import cases
from grader.problem import Case, Problem

# Hypothesis also draws the numbers that occur in the code of loaded modules, and caches them in the folder
# `.hypothesis`. It has no setting against this. Cases must be the same wherever the course is installed and whatever
# else is loaded.
providers._get_local_constants = lambda: providers._local_constants  # the empty set that it would fill

_QUIET = hypothesis.settings(
    database=None,
    deadline=None,
    max_examples=100,
    phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    suppress_health_check=list(hypothesis.HealthCheck),
)


def shrink(problem: Problem, failing: Case, seed: int, fails: Callable[[Case], bool], seconds: float) -> Case:
    """Returns the smallest case for which `fails` is true that a search of about `seconds` reaches; `failing` if none
    is smaller."""
    end, smallest = monotonic() + seconds, failing

    def still_fails(case: Case) -> bool:
        nonlocal smallest
        if _weight(case) >= _weight(smallest):
            return _key(case) == _key(smallest)
        if monotonic() > end or not fails(case):
            return False
        smallest = case
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        with contextlib.suppress(NoSuchExample):
            hypothesis.find(
                _cases(problem, failing.group, seed),
                still_fails,
                settings=_QUIET,
                random=random.Random(seed),  # noqa: S311
            )
    return smallest


def _cases(problem: Problem, group: str, seed: int) -> st.SearchStrategy[Case]:
    family = problem.cases[group]
    sizes = {name: st.sampled_from(list(options)) for name, options in family.sizes.items()}
    return st.builds(
        lambda sizes, case_seed: cases.make(problem, group, sizes, seed, case_seed),
        st.fixed_dictionaries(sizes),
        st.integers(0, 2**16 - 1),
    )


def _weight(case: Case) -> tuple[Any, ...]:
    """Returns the order of cases by simplicity: numbers in arrays, then sizes, then the seed."""
    numbers = sum(getattr(value, "size", 1) for value in case.values.values())
    return (numbers, sum(case.sizes.values()), case.seed)


def _key(case: Case) -> tuple[Any, ...]:
    return (tuple(sorted(case.sizes.items())), case.seed)
