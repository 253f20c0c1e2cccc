"""Finds the misconception that gives the learner's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.course.catalog import Misconception
from grader.judge.reference import Answers
from grader.judge.session import Outcome
from grader.problem import NUMERIC, Case, Check, Tolerance
from grader.wire.compare import compare, select

# On the same case, the reference with the misconception differs from the learner's version of it only by rounding.
SAME = Tolerance(rtol=1e-4, atol=1e-4)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of one check on one case, and whether it was wrong."""

    check: Check
    case: Case
    outcome: Outcome
    wrong: bool


def misconception(reference: Answers, evidence: Sequence[Evidence]) -> Misconception | None:
    """The misconception that explains every wrong outcome of the first failing check; None if none does.

    If several do, the one that agrees with most of the evidence; among equals, the first listed.
    """
    failed = [item for item in evidence if item.wrong]
    first = [item for item in failed if item.check is failed[0].check]
    possible = list(reference.ideas)
    for item in first:
        answers = {variant: reference.ask(item.check, item.case, variant) for variant in possible}
        possible = [variant for variant in possible if _same(answers[variant].result(), item, item.check.leaves)]
    if len(possible) < 2:
        return reference.ideas[possible[0]] if possible else None

    def agreement(variant: str) -> int:
        # All leaves of the probes count here, including those that no check compares.
        asked = [(item, reference.ask(item.check, item.case, variant)) for item in evidence]
        return sum(_same(answer.result(), item) for item, answer in asked)

    return reference.ideas[max(possible, key=agreement)]


def _same(variant: Outcome, item: Evidence, leaves: str = "") -> bool:
    """Whether two outcomes agree: the same numbers, or the same error with the same message."""
    submitted = item.outcome
    if variant.failure and submitted.failure:
        return variant.failure.identity == submitted.failure.identity
    if variant.failure or submitted.failure:
        return False
    # A check on small numbers, or with an exact tolerance, needs an equally strict comparison here.
    close = replace(SAME, atol=min(SAME.atol, 10 * item.check.tolerance.atol))
    tolerance = NUMERIC if submitted.numeric else close
    return compare(select(variant.leaves, leaves), select(submitted.leaves, leaves), tolerance) is None
