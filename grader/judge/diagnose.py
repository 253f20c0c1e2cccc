"""Which known wrong idea gives the learner's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.course import Misconception
from grader.flat import compare, select
from grader.problem import NUMERIC, Case, Check, Tolerance
from grader.reference import Answers
from grader.session import Outcome

# A wrong idea, run in the same program on the same case, differs from the learner's version of it only by rounding.
SAME = Tolerance(rtol=1e-4, atol=1e-4)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the submission gave for one check on one case, and whether that was wrong."""

    check: Check
    case: Case
    outcome: Outcome
    wrong: bool


def misconception(reference: Answers, evidence: Sequence[Evidence]) -> Misconception | None:
    """The idea that explains every wrong outcome of the first check that failed; None if none does.

    Among several that do, the one that agrees with most of all that was seen; among equals, the first listed.
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
        # All that the probes returned counts here, also leaves that no check looks at.
        asked = [(item, reference.ask(item.check, item.case, variant)) for item in evidence]
        return sum(_same(answer.result(), item) for item, answer in asked)

    return reference.ideas[max(possible, key=agreement)]


def _same(ours: Outcome, item: Evidence, leaves: str = "") -> bool:
    """Whether two outcomes are one: the same numbers, or the same error with the same message."""
    theirs = item.outcome
    if ours.failure or theirs.failure:
        return bool(
            ours.failure
            and theirs.failure
            and (ours.failure.kind, ours.failure.type, ours.failure.message)
            == (theirs.failure.kind, theirs.failure.type, theirs.failure.message)
        )
    # Where a check looks at small numbers, or exactly, so must this.
    close = replace(SAME, atol=min(SAME.atol, 10 * item.check.tolerance.atol))
    tolerance = NUMERIC if theirs.numeric else close
    return compare(select(ours.leaves, leaves), select(theirs.leaves, leaves), tolerance) is None
