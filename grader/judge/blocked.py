"""Blocked checks: they could not be judged, because something else must be right first. Every report says so in the
same words.

A blocked check shows no numbers, unless it is the first failure, and is never reported as an additional error.
"""

from collections.abc import Sequence
from dataclasses import replace

from grader.judge.verdict import CheckResult, Verdict
from grader.problem import INPUTS, UNCHECKED, Case, Check
from grader.wire.compare import Mismatch

NOT_JUDGED = "not judged yet: "
RIGHT_VALUES = "the program must first return the right values"
RIGHT_PLACES = "the program must first take its inputs where the page places them"
NO_MORE_OUTPUTS = "the program must first return nothing but the right values"


def not_judged(check: Check, case: Case, condition: str, mismatch: Mismatch | None = None) -> CheckResult:
    """Returns the result of a check that waits for a condition. `mismatch` is the difference to fix first, if it is
    known."""
    return CheckResult(check, Verdict.FAIL, NOT_JUDGED + condition, mismatch, case, judged=False)


def program_differs(mismatch: Mismatch) -> str:
    """Returns the condition that a program must fulfill before it is measured, by its first difference from the
    reference's."""
    special = {INPUTS: RIGHT_PLACES, UNCHECKED: NO_MORE_OUTPUTS}
    return next((text for prefix, text in special.items() if mismatch.path.startswith(prefix)), RIGHT_VALUES)


def traceable(notes: Sequence[str]) -> str:
    """Returns the condition that there must be a program to measure. `notes` say why there is none."""
    reasons = f" ({'; '.join(notes)})" if notes else ""
    return f"the code must first be traceable by jax.jit{reasons}"


def same_output(agrees_with: str) -> str:
    """Returns the condition that an entry must not notice that it is being checked."""
    return f"the output must first be the same here as in the check {agrees_with!r}"


def without_consequences(results: Sequence[CheckResult], first: CheckResult) -> list[CheckResult]:
    """Returns the results without the consequences of the first failure: the numbers of checks that could not be
    judged.

    Parameters are filled by name, so a wrong name spoils all values. A check that also needs a compiled program reports
    no values that another check has already rejected.
    """
    misnamed = _misnamed(first)

    def judged(result: CheckResult) -> CheckResult:
        if result is first or not result.mismatch:
            return result
        if misnamed and not result.passed:
            return not_judged(result.check, result.case, misnamed) if result.case else result
        if result.case and any(_asks_only_for_a_program(result.check, other) for other in results):
            return not_judged(result.check, result.case, RIGHT_VALUES)
        return result if result.judged else replace(result, mismatch=None)

    return [judged(result) for result in results]


def _asks_only_for_a_program(check: Check, other: CheckResult) -> bool:
    """Returns whether the check differs from another one, which failed, only in that it needs a compiled program."""
    same_values = (check.run_key, check.leaves) == (other.check.run_key, other.check.leaves)
    return check.traced and not other.check.traced and not other.passed and same_values


def _misnamed(first: CheckResult) -> str:
    """Returns what to fix first if parameters have wrong names; empty if they do not."""
    mismatch = first.mismatch
    if not mismatch or mismatch.kind not in ("missing", "unexpected") or first.check.probe != "parameters":
        return ""
    if mismatch.kind == "unexpected":
        return f"parameters are filled by name, so first remove `{mismatch.name}`"
    return f"parameters are filled by name, and `{mismatch.name}` is missing"
