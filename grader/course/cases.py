"""Draws cases, and shrinks a failing case.

Hypothesis draws sizes and a seed, never the elements of an array: it would shrink those to zero, which hides errors. NumPy
makes the arrays from the seed.
"""

import contextlib
import hashlib
import random
import warnings
import zlib
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning, NoSuchExample
from hypothesis.internal.conjecture import providers

from grader.errors import CourseError
from grader.problem import Case, Problem

# Hypothesis also draws the numbers that occur in the code of loaded modules, and caches them in the folder `.hypothesis`. It has
# no setting against this. Cases must be the same wherever the course is installed and whatever else is loaded.
providers._get_local_constants = lambda: providers._local_constants  # the empty set that it would fill

_QUIET = hypothesis.settings(
    database=None,
    deadline=None,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)


def draw(problem: Problem, group: str, seed: int) -> list[Case]:
    """The cases of one family, simplest first. The same seed gives the same cases.

    There are at most `draws` of them, and fewer if the sizes have few combinations. An only case is the simplest with seed 0.
    With another seed its sizes are drawn, so that they are as secret as the seed. Raises CourseError if the problem's own code
    fails.
    """
    drawn: list[Case] = []
    draws = problem.cases[group].draws
    # Hypothesis draws the simplest first, and then one that differs from it.
    examples = 4 if seed and draws == 1 else draws

    @hypothesis.settings(_QUIET, max_examples=examples)
    @hypothesis.given(_cases(problem, group, seed))
    def collect(case: Case) -> None:
        drawn.append(case)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)
            hypothesis.seed(seed)(collect)()
    except Exception as error:
        path = problem.folder / "problem.py"
        raise CourseError(f"{path} cannot draw its {group!r}: {type(error).__name__}: {error}") from error
    return drawn[-draws:]


def draw_all(problem: Problem, seed: int) -> dict[str, list[Case]]:
    """The cases of every family that a check uses."""
    return {group: draw(problem, group, seed) for group in sorted({check.cases for check in problem.checks})}


def shrink(problem: Problem, failing: Case, seed: int, fails: Callable[[Case], bool], seconds: float) -> Case:
    """The smallest case for which `fails` is true that a search of about `seconds` reaches; `failing` if none is smaller."""
    end, smallest = monotonic() + seconds, failing

    def still_fails(case: Case) -> bool:
        nonlocal smallest
        if _weight(case) >= _weight(smallest):
            return _key(case) == _key(smallest)
        if monotonic() > end or not fails(case):
            return False
        smallest = case
        return True

    settings = hypothesis.settings(
        _QUIET, max_examples=100, phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        with contextlib.suppress(NoSuchExample):
            hypothesis.find(
                _cases(problem, failing.group, seed),
                still_fails,
                settings=settings,
                random=random.Random(seed),  # noqa: S311
            )
    return smallest


def _cases(problem: Problem, group: str, seed: int) -> st.SearchStrategy[Case]:
    family = problem.cases[group]
    sizes = {name: st.sampled_from(list(options)) for name, options in family.sizes.items()}
    return st.builds(
        lambda sizes, case_seed: make(problem, group, sizes, seed, case_seed),
        st.fixed_dictionaries(sizes),
        st.integers(0, 2**16 - 1),
    )


def make(problem: Problem, group: str, sizes: Mapping[str, int], seed: int, case_seed: int) -> Case:
    """The case with these sizes. Its arrays are drawn from both seeds."""
    rng = np.random.default_rng([zlib.crc32(f"{problem.name}:{group}".encode()), seed, case_seed])
    values = problem.cases[group].make(sizes, rng)
    return Case(values, group, dict(sizes), _secret(group, sizes, seed, case_seed) if seed else case_seed)


def _secret(group: str, sizes: Mapping[str, int], seed: int, case_seed: int) -> int:
    """The seed from which probes draw the parameters of a case.

    Code that cannot be traced is told it. That must not give away the parameters of any other case, which code is traced for.
    """
    digest = hashlib.sha256(f"{seed}:{group}:{sorted(sizes.items())}:{case_seed}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _weight(case: Case) -> tuple[Any, ...]:
    """The order of cases by simplicity: numbers in arrays, then sizes, then the seed."""
    numbers = sum(getattr(value, "size", 1) for value in case.values.values())
    return (numbers, sum(case.sizes.values()), case.seed)


def _key(case: Case) -> tuple[Any, ...]:
    return (tuple(sorted(case.sizes.items())), case.seed)
