"""What grading one submission yields: a verdict, points, and the first thing to look at."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from grader.course import Misconception
from grader.flat import Mismatch
from grader.problem import Case, Check, Problem

NOTHING_RUN = "none: nothing was run"  # isolation


class Verdict(StrEnum):
    """In order of severity: the worst that any check met is the submission's."""

    PASS = "PASS"  # noqa: S105
    NOT_ATTEMPTED = "NOT ATTEMPTED"
    FAIL = "FAIL"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    MEMORY = "MEMORY"

    @property
    def severity(self) -> int:
        return list(Verdict).index(self)


@dataclass(frozen=True)
class CheckResult:
    """One check: whether it passed and, if not, one sentence that says why."""

    check: Check
    verdict: Verdict
    message: str = ""
    mismatch: Mismatch | None = None
    case: Case | None = None

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASS


@dataclass(frozen=True)
class Report:
    """The verdict on one submission. `seconds` is wall time; `isolation` names the layers that were in force.

    `notes` say how the file was read. `part` says which part of a module is first wrong, where no known idea fits. `earlier` is
    the report on an imported course module that fails its own checks. `died` says that its process ended by itself.
    """

    problem: Problem
    filename: str
    checks: Sequence[CheckResult]
    misconception: Misconception | None = None
    frames: str = ""
    notes: Sequence[str] = field(default_factory=list)
    stdout: str = ""
    isolation: str = NOTHING_RUN
    seconds: float = 0.0
    part: str = ""
    earlier: "Report | None" = None
    died: bool = False

    @property
    def verdict(self) -> Verdict:
        """The worst of the checks'; NOT ATTEMPTED only if nothing at all was."""
        worst = max((result.verdict for result in self.checks), key=lambda verdict: verdict.severity)
        if worst is Verdict.NOT_ATTEMPTED and any(result.passed for result in self.checks):
            return Verdict.FAIL
        return worst

    @property
    def score(self) -> int:
        return sum(result.check.points for result in self.checks if result.passed)

    @property
    def first_failure(self) -> CheckResult | None:
        """The first check that did not pass."""
        return next((result for result in self.checks if not result.passed), None)
