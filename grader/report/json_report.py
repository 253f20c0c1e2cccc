"""The report as one JSON object. Its keys are stable: an incompatible change increases `schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from commandline.problem_name import ProblemName
from grader.course import catalog
from grader.course.catalog import Misconception
from grader.isolation.level import NOTHING_RUN
from grader.judge.verdict import CheckResult, Report, Verdict, overall
from grader.problem import Case

SCHEMA = 1
_SHOWN = 2000  # numbers; a larger array is shown as its dtype and shape


@dataclass(frozen=True)
class CheckRow:
    """The result of one check.

    Attributes:
        name: The name of the check.
        passed: Whether it passed.
        points: The points of the check.
        message: A sentence that says why it failed.
        verdict: The verdict.
        kind: The kind of its mismatch, if it has one.
        own_error: On a secret case, the text on an error in their code that the learner may read.
        stage: The stage of the problem that it belongs to; empty if the problem has none.
    """

    name: str
    passed: bool
    points: int
    message: str
    verdict: Verdict
    kind: str = ""
    own_error: str = ""
    stage: str = ""


@dataclass(frozen=True)
class MisconceptionRow:
    """The misconception behind a failure.

    Attributes:
        name: Its name.
        says: What the program does.
        fix: How to mend it; empty in a report of an older version.
    """

    name: str
    says: str
    fix: str = ""


@dataclass(frozen=True)
class Earlier:
    """An imported course module that fails its own checks."""

    problem: str
    verdict: Verdict
    misconception: str | None


@dataclass(frozen=True)
class PublicReport:
    """A report as other programs read it.

    Attributes:
        problem: The problem's name; None if the request was refused before it was known.
        verdict: The verdict.
        score: The points reached.
        points: The most points.
        checks: The results of the checks, in order.
        misconception: The misconception behind the failure, if one was found.
        part: A sentence on the first faulty submodule or the first NaN.
        earlier: An imported course module that fails its own checks.
        notes: Sentences on how the file was read.
        counterexample: The failing case, if it may be shown.
        stdout: The output that the submission printed.
        isolation: The isolation, in one line.
        seconds: The wall time.
        executed: Whether any of the file's code ran.
        remarks: Sentences on how the file ran.
        eager_stdout: The output of an eager run of the failing case.
    """

    problem: ProblemName | None
    verdict: Verdict
    score: int
    points: int
    checks: tuple[CheckRow, ...]
    misconception: MisconceptionRow | None = None
    part: str = ""
    earlier: Earlier | None = None
    notes: tuple[str, ...] = ()
    counterexample: Mapping[str, Any] | None = None
    stdout: str = ""
    isolation: str = str(NOTHING_RUN)
    seconds: float = 0.0
    executed: bool = True
    remarks: tuple[str, ...] = ()
    eager_stdout: str = ""

    @classmethod
    def of(cls, report: Report) -> PublicReport:
        """Returns the public form of a report."""
        misconception, earlier = report.misconception, report.earlier
        return cls(
            report.problem.name,
            report.verdict,
            report.score,
            report.problem.points,
            tuple(
                CheckRow(
                    result.check.name,
                    result.passed,
                    result.check.points,
                    result.message,
                    result.verdict,
                    result.mismatch.kind if result.mismatch else "",
                    result.own_error,
                    result.stage,
                )
                for result in report.checks
            ),
            MisconceptionRow(misconception.name, misconception.says, misconception.fix) if misconception else None,
            report.fault,
            Earlier(
                earlier.problem.name, earlier.verdict, earlier.misconception.name if earlier.misconception else None
            )
            if earlier
            else None,
            tuple(report.notes),
            _counterexample(report.first_failure),
            report.stdout,
            str(report.isolation),
            round(report.seconds, 3),
            report.isolation != NOTHING_RUN,
            tuple(report.remarks),
            report.eager_stdout,
        )

    @classmethod
    def refused(cls, problem: ProblemName | None, message: str) -> PublicReport:
        """Returns the report on a request that was refused, such as a missing file."""
        return cls(
            problem, Verdict.ERROR, 0, 0, (CheckRow("request", False, 0, message, Verdict.ERROR),), executed=False
        )  # fmt: skip

    def report(self, filename: str) -> Report:
        """Returns the report that this is the public form of, without arrays, lines of code and its imports' reports.

        Raises CommandError if the course has no such problem.
        """
        problem = catalog.load(str(self.problem))
        checks = {check.name: check for check in problem.checks}
        return Report(
            problem, filename,
            [CheckResult(checks[row.name], row.verdict, row.message) for row in self.checks if row.name in checks],
            Misconception(cause.name, cause.says, "", (), cause.fix) if (cause := self.misconception) else None,
            notes=self.notes, stdout=self.stdout, seconds=self.seconds, fault=self.part, remarks=self.remarks,
            eager_stdout=self.eager_stdout,
        )  # fmt: skip

    @property
    def first_failure(self) -> CheckRow | None:
        """The first check that did not pass."""
        return next((check for check in self.checks if not check.passed), None)

    def summary(self) -> str:
        """Returns the first check that did not pass, with the first line of its message. Empty if all passed."""
        failed = self.first_failure
        return f"{failed.name}: {failed.message}".partition("\n")[0] if failed else ""

    def with_points(self, points: Mapping[str, int]) -> PublicReport:
        """Returns the same results with other points for each check, by its name."""
        checks = tuple(replace(check, points=points[check.name]) for check in self.checks)
        score = sum(check.points for check in checks if check.passed)
        return replace(self, checks=checks, score=score, points=sum(points.values()))

    def with_check(self, name: str, again: PublicReport) -> PublicReport:
        """Returns these results, with those of the check `name`, and of checks that are new, taken from the grading
        `again`."""
        if not self.executed:
            return again
        old = {check.name: check for check in self.checks}
        checks = tuple(check if check.name == name else old.get(check.name, check) for check in again.checks)
        failed = next((check for check in checks if not check.passed), None)
        told = (
            again if failed is None or failed.name == name or failed.name not in old else self
        )  # of the first failure
        points = sum(check.points for check in checks)
        return replace(
            told, checks=checks, verdict=overall(checks),
            score=sum(check.points for check in checks if check.passed), points=points,
            misconception=told.misconception if failed else None,
        )  # fmt: skip

    def encode(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> PublicReport:
        """Returns the report from JSON values. Raises KeyError, TypeError or ValueError on anything that `encode` did
        not make."""
        values = {key: value for key, value in fields.items() if key != "schema"}
        problem, misconception, earlier = values["problem"], values["misconception"], values["earlier"]
        return cls(**{
            **values,
            "problem": None if problem is None else ProblemName(problem),
            "verdict": Verdict(values["verdict"]),
            "checks": tuple(CheckRow(**{**row, "verdict": Verdict(row["verdict"])}) for row in values["checks"]),
            "misconception": None if misconception is None else MisconceptionRow(**misconception),
            "earlier": None if earlier is None else Earlier(**{**earlier, "verdict": Verdict(earlier["verdict"])}),
            "notes": tuple(values["notes"]),
            "remarks": tuple(values.get("remarks", ())),
        })  # fmt: skip


def dumps(report: PublicReport) -> str:
    """Returns the report as one line of JSON."""
    return json.dumps(report.encode(), ensure_ascii=False, allow_nan=False)


def _counterexample(failed: CheckResult | None) -> dict[str, Any] | None:
    if failed is None or failed.mismatch is None or failed.case is None:
        return None
    mismatch = failed.mismatch
    return {
        "inputs": inputs(failed.case),
        "leaf": mismatch.name,
        "index": list(mismatch.index) if mismatch.index is not None else None,
        "expected": _number(mismatch.expected),
        "got": _number(mismatch.got),
    }


def _number(text: str) -> float | str:
    """Returns the text as a finite number; otherwise the text itself, such as a shape, `nan` or `split over model`."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if np.isfinite(value) else text


def inputs(case: Case) -> dict[str, Any]:
    """Returns the case's values by name. Arrays become nested lists, with non-finite numbers as text. Large arrays
    become a text."""
    shown: dict[str, Any] = {}
    for name, value in case.values.items():
        if isinstance(value, np.ndarray):
            shown[name] = _finite(value.tolist()) if value.size <= _SHOWN else f"{value.dtype}{list(value.shape)}"
        else:
            shown[name] = value
    return shown


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)
