"""Reports for learners that reveal nothing about secret cases."""

from dataclasses import replace

from grader.judge.verdict import Verdict
from grader.report.json import CheckRow, PublicReport

_KINDS = {
    "value": "a number differs from the reference's",
    "shape": "a shape differs from the reference's",
    "dtype": "a dtype differs from the reference's",
    "missing": "an output that the reference returns is missing",
    "unexpected": "there is an output that the reference does not return",
}
_VERDICTS = {
    Verdict.FAIL: "its result differs from the reference's",
    Verdict.ERROR: "it raised an exception or exited",
    Verdict.TIMEOUT: "it returned no result in time",
    Verdict.MEMORY: "it ran out of memory",
    Verdict.NOT_ATTEMPTED: "not implemented yet",
}


def redacted(report: PublicReport) -> PublicReport:
    """A report with the verdict of each check, the kind of its mismatch, the learner's own errors, and the misconception.

    Leaves out all numbers of a case and all text from the process that ran it: a submission could hide inputs in the text or
    the type of an exception, or print them. The report on a file that was never run is not changed.
    """
    if not report.executed:
        return report
    checks = tuple(replace(check, message=_message(check), own_error="") for check in report.checks)
    return replace(report, checks=checks, counterexample=None, stdout="", eager_stdout="", part="", remarks=())


def _message(check: CheckRow) -> str:
    return "" if check.passed else check.own_error or _KINDS.get(check.kind) or _VERDICTS[check.verdict]
