"""Redacts reports for learners: they reveal nothing about secret cases, and of the rest as much as the teacher
wants."""

from dataclasses import replace
from typing import Literal

from commandline.errors import UsageError
from grader.judge.verdict import Verdict
from grader.report.json_report import CheckRow, PublicReport

# The levels: the verdict of each check; also the name of the misconception; also differences and advice.
Reveal = Literal["verdict", "idea", "advice"]
REVEALS: tuple[Reveal, ...] = ("verdict", "idea", "advice")
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
    """Returns a report with the verdict of each check, the kind of its mismatch, the learner's own errors, and the
    misconception.

    Leaves out all numbers of a case and all text from the process that ran it: a submission could hide inputs in the
    text or the type of an exception, or print them. The report on a file that was never run is not changed.
    """
    if not report.executed:
        return report
    checks = tuple(replace(check, message=_message(check), own_error="") for check in report.checks)
    return replace(report, checks=checks, counterexample=None, stdout="", eager_stdout="", part="", remarks=())


def require_more(reveal: str, after_due: str | None) -> None:
    """Raises UsageError if `after` reveals less to learners than `before`. None means that both reveal the same."""
    if after_due and REVEALS.index(after_due) < REVEALS.index(reveal):
        raise UsageError(
            f"--reveal-after-due {after_due} tells less than --reveal {reveal}; what was told stays known."
        )


def told(report: PublicReport, reveal: Reveal) -> PublicReport:
    """Returns the report as a learner may read it. It always includes why a file could not be run."""
    if reveal == "advice" or not report.executed:
        return report
    checks = tuple(replace(check, message="", kind="", own_error="") for check in report.checks)
    idea = replace(report.misconception, says="") if report.misconception and reveal == "idea" else None
    return replace(
        report,
        checks=checks,
        misconception=idea,
        part="",
        earlier=None,
        counterexample=None,
        stdout="",
        eager_stdout="",
        remarks=(),
    )


def _message(check: CheckRow) -> str:
    return "" if check.passed else check.own_error or _KINDS.get(check.kind) or _VERDICTS[check.verdict]
