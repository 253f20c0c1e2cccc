"""The verdict on one submission: points by check, and the explanation of the first failure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from grader.course import plays
from grader.course.catalog import Misconception
from grader.isolation.level import NOTHING_RUN, Isolation
from grader.judge.counterexample import Counterexample
from grader.problem import Case, Check, Problem
from grader.wire.compare import Mismatch


class Verdict(StrEnum):
    """The possible verdicts, in order of severity. A submission gets the most severe one of its checks."""

    PASS = "PASS"  # noqa: S105
    NOT_ATTEMPTED = "NOT ATTEMPTED"
    FAIL = "FAIL"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"
    MEMORY = "MEMORY"

    @property
    def severity(self) -> int:
        return list(Verdict).index(self)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The most severe verdict of some checks; NOT ATTEMPTED only if none passed."""
    worst = max(verdicts, key=lambda verdict: verdict.severity)
    return Verdict.FAIL if worst is Verdict.NOT_ATTEMPTED and Verdict.PASS in verdicts else worst


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one check, and one sentence that says why it failed.

    `judged` is false if something else must be right first; see `unjudged`. On a secret case, `own_error` is what the
    learner may read of an error in their code; see `own_errors`.
    """

    check: Check
    verdict: Verdict
    message: str = ""
    mismatch: Mismatch | None = None
    case: Case | None = None
    own_error: str = ""
    judged: bool = True

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASS

    @property
    def advice(self) -> str:
        """The advice on the usual cause of a failure, if the check could be judged and its own numbers are wrong."""
        return self.check.advice if self.mismatch and self.judged else ""


@dataclass(frozen=True)
class Report:
    """The verdict on one submission.

    `frames` are the learner's own lines of a traceback, and `line` is that of the innermost one in the file, or 0.
    `notes` say how the file was read, and `remarks` how it ran. `seconds` is wall time. `fault` says which submodule is
    the first faulty one, or where a NaN comes from, where no misconception fits. `earlier` is the report on an imported
    course module that fails its own checks. `exited` means that the submission's process ended before it returned a
    result. `counterexample` holds the arrays of the first failure, and `eager_stdout` is what an eager run of it
    printed; both only where the case may be shown.
    """

    problem: Problem
    filename: str
    checks: Sequence[CheckResult]
    misconception: Misconception | None = None
    frames: str = ""
    line: int = 0
    notes: Sequence[str] = field(default_factory=list)
    stdout: str = ""
    isolation: Isolation = NOTHING_RUN
    seconds: float = 0.0
    fault: str = ""
    earlier: "Report | None" = None
    exited: bool = False
    remarks: Sequence[str] = ()
    counterexample: Counterexample | None = None
    eager_stdout: str = ""

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of the checks; NOT ATTEMPTED only if no check passed."""
        return overall([result.verdict for result in self.checks])

    @property
    def score(self) -> int:
        return sum(result.check.points for result in self.checks if result.passed)

    @property
    def first_failure(self) -> CheckResult | None:
        """The first check that did not pass."""
        return next((result for result in self.checks if not result.passed), None)

    @property
    def can_play(self) -> bool:
        """Whether the file can be shown at work: the problem has a play, all of the file ran, and its parameters have
        the names by which a play gives them trained values."""
        named = all(
            result.passed or (result.mismatch is not None and result.mismatch.kind == "value")
            for result in self.checks
            if result.check.probe == "parameters"
        )
        return named and self.verdict in (Verdict.PASS, Verdict.FAIL) and plays.exists(self.problem)
