"""Probes of problem 80: numbers, votes, intervals, and how often intervals hold the truth. Run in workers."""

import ast
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p80_answers_that_count.problem import INTERVAL, VOTE

ENDS = ("difference", "low", "high")
# The mean advantage of the first model in simulated evaluations, and how far that of a group of problems may be from
# it.
ADVANTAGE, SPREAD = 0.1, 0.3


@eager
def counting(subject: Subject, case: Case, entry: str) -> Reading:
    """The number that an entry returns."""
    values = [_copied(case.values[name]) for name in subject.problem.entry(entry).arguments]
    return Reading({"number": _number(entry, subject.call(entry, *values))})


@eager
def voting(subject: Subject, case: Case) -> Reading:
    """Whether an answer has won, and which."""
    found = subject.call(VOTE, ast.literal_eval(str(case.values["answers"])))
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | np.integer)):
        raise BadOutputError(f"`{VOTE}` returned {described(found)}; it must return one of the answers, or None")
    return Reading({"vote.won": np.int64(found is not None), "vote.answer": np.int64(found or 0)})


@eager
def comparing(subject: Subject, case: Case) -> Reading:
    """The difference of two models, and the ends of its interval."""
    found = _interval(subject, *(_copied(case.values[name]) for name in ("a", "b", "groups")))
    return Reading({f"interval.{name}": np.float64(end) for name, end in zip(ENDS, found, strict=True)})


@eager
def covering(subject: Subject, case: Case) -> Reading:
    """The share of intervals that hold the true difference, over simulated evaluations, and their mean width."""
    values: Any = case.values
    rng, count, G = np.random.default_rng(values["seed"]), values["evaluations"], values["G"]
    groups = np.repeat(np.arange(G), values["together"])
    ease = rng.uniform(0.25, 0.7, (count, G))[:, groups] + rng.uniform(-0.05, 0.05, (count, len(groups)))
    gain = ADVANTAGE + rng.uniform(-SPREAD, SPREAD, (count, G))[:, groups]
    of_a, of_b = (
        (rng.random((*ease.shape, values[name])) < (ease + sign * gain / 2)[..., None]).astype("float64")
        for name, sign in (("A", 1), ("B", -1))
    )
    held, width = 0, 0.0
    for a, b in zip(of_a, of_b, strict=True):
        _, low, high = _interval(subject, a, b, groups.copy())
        held += low <= ADVANTAGE <= high
        width += high - low
    return Reading({"coverage.share": np.float64(held / count), "coverage.width": np.float64(width / count)})


def _interval(subject: Subject, a: Any, b: Any, groups: Any) -> tuple[float, ...]:
    found = subject.call(INTERVAL, a, b, groups)
    if not isinstance(found, tuple | list) or len(found) != len(ENDS):
        raise BadOutputError(f"`{INTERVAL}` returned {described(found)}; it must return (difference, low, high)")
    return tuple(float(_number(INTERVAL, each)) for each in found)


def _number(entry: str, found: Any) -> np.float64:
    """A number of Python or NumPy. Raises BadOutputError if it is something else."""
    if np.shape(found) or not isinstance(found, int | float | np.number):
        raise BadOutputError(f"`{entry}` returned {described(found)}; it must return a Python or NumPy number")
    return np.float64(found)


def _copied(value: Any) -> Any:
    """A value that the entry may write to."""
    return value.copy() if isinstance(value, np.ndarray) else value


PROBES = {"counting": counting, "voting": voting, "comparing": comparing, "covering": covering}
