"""Finds the misconception that reproduces the learner's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.course.catalog import Misconception
from grader.judge.reference import Answers
from grader.judge.session import Outcome
from grader.problem import NUMERIC, PROGRAM, Case, Check, Tolerance
from grader.wire.compare import Leaf, compare, select

# The reference with a misconception and a learner's program with the same one differ only by rounding.
SAME = Tolerance(rtol=1e-4, atol=1e-4)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of one check on one case, and whether it was wrong."""

    check: Check
    case: Case
    outcome: Outcome
    wrong: bool


def misconception(reference: Answers, evidence: Sequence[Evidence]) -> Misconception | None:
    """The misconception that reproduces every wrong outcome of the first failing check; None if none does.

    If several do, returns the one that agrees with most of the evidence, and among equals the first listed.
    """
    failures = [item for item in evidence if item.wrong]
    first_check = [item for item in failures if item.check is failures[0].check]
    possible = list(reference.misconceptions)
    for item in first_check:
        answers = {variant: reference.ask(item.check, item.case, variant) for variant in possible}
        possible = [variant for variant in possible if _same(answers[variant].result(), item, of_check=True)]
    if len(possible) < 2:
        return reference.misconceptions[possible[0]] if possible else None

    def agreement(variant: str) -> int:
        # All leaves of the probes count here, including those that no check compares.
        answers = [(item, reference.ask(item.check, item.case, variant)) for item in evidence]
        return sum(_same(answer.result(), item) for item, answer in answers)

    return reference.misconceptions[max(possible, key=agreement)]


def _same(answer: Outcome, item: Evidence, *, of_check: bool = False) -> bool:
    """Whether two outcomes agree: the same numbers, or the same error with the same message.

    `of_check` leaves out the numbers that the check does not compare. A measure is compared with the values of its program.
    """
    outcome = item.outcome
    if answer.failure and outcome.failure:
        return answer.failure.identity == outcome.failure.identity
    if answer.failure or outcome.failure:
        return False
    # A check on small numbers, or with an exact tolerance, needs an equally strict comparison here.
    close = replace(SAME, atol=min(SAME.atol, 10 * item.check.tolerance.atol))
    tolerance = NUMERIC if outcome.numeric else close

    def compared(leaves: Sequence[Leaf]) -> Sequence[Leaf]:
        if not of_check:
            return leaves
        values = [leaf for leaf in leaves if not leaf.path.startswith(PROGRAM)] if item.check.measures else []
        return [*values, *select(leaves, item.check.leaves)]

    return compare(compared(answer.leaves), compared(outcome.leaves), tolerance) is None
