"""The verdict on one submission: points by check, and the explanation of the first failure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

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


class Judged(Protocol):
    """A check with its verdict."""

    @property
    def verdict(self) -> Verdict: ...

    @property
    def stage(self) -> str: ...


def overall(checks: Sequence[Judged]) -> Verdict:
    """Returns the most severe verdict of the checks; NOT ATTEMPTED only if none passed. What comes after the first
    stage that is not passed does not count."""
    failed = next((check.stage for check in checks if check.verdict is not Verdict.PASS), "")
    stages = list(dict.fromkeys(check.stage for check in checks))
    reached = stages[: stages.index(failed) + 1] if failed else stages
    verdicts = [check.verdict for check in checks if check.stage in reached]
    worst = max(verdicts, key=lambda verdict: verdict.severity)
    return Verdict.FAIL if worst is Verdict.NOT_ATTEMPTED and Verdict.PASS in verdicts else worst


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one check.

    Attributes:
        check: The check.
        verdict: The verdict.
        message: A sentence that says why it failed.
        mismatch: The first difference; None if there is none, or if it could not be compared.
        case: The case on which it failed.
        own_error: On a secret case, the text on an error in their code that the learner may read; see `public_errors`.
        judged: Whether the check could be judged; see `blocked`.
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
    def stage(self) -> str:
        """The stage of the problem that the check belongs to."""
        return self.check.stage

    @property
    def advice(self) -> str:
        """The advice on the usual cause of a failure, if the check could be judged and its own numbers are wrong."""
        return self.check.advice if self.mismatch and self.judged else ""


@dataclass(frozen=True)
class Stage:
    """The results of one stage of a problem.

    Attributes:
        number: Its number, from 1.
        of: The number of stages.
        name: Its name.
        checks: The results of its checks.
        reached: Whether all stages before it are passed.
    """

    number: int
    of: int
    name: str
    checks: Sequence[CheckResult]
    reached: bool

    @property
    def passed(self) -> bool:
        """Whether it is passed: all of its checks are, and all stages before it."""
        return self.reached and all(result.passed for result in self.checks)

    def heading(self) -> str:
        """Returns the line above its checks; empty if the problem has no stages."""
        if not self.name:
            return ""
        right = f"{sum(result.passed for result in self.checks)} of {len(self.checks)} checks pass"
        state = "passed" if self.passed else right if self.reached else f"later ({right})"
        return f"Stage {self.number} of {self.of}, {self.name}: {state}"


@dataclass(frozen=True)
class Report:
    """The verdict on one submission.

    Attributes:
        problem: The problem.
        filename: The name of the submitted file.
        checks: The results of the checks, in order.
        misconception: The misconception behind the failure, if one was found.
        frames: The learner's own lines of a traceback.
        line: The line of the innermost one in the file, or 0.
        notes: Sentences on how the file was read.
        stdout: The output that the submission printed.
        isolation: The isolation of its processes.
        seconds: The wall time.
        fault: A sentence on the first faulty submodule, or on where a NaN comes from, where no misconception fits.
        earlier: The report on an imported course module that fails its own checks.
        exited: Whether the submission's process ended before it returned a result.
        remarks: Sentences on how the file ran.
        counterexample: The arrays of the first failure, only where the case may be shown.
        eager_stdout: The output of an eager run of the failing case, only where the case may be shown.
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
        """The most severe verdict of the checks up to the first stage that is not passed; NOT ATTEMPTED only if no
        check passed."""
        return overall(self.checks)

    @property
    def stages(self) -> list[Stage]:
        """The results by stage; all in one of them, without a name, if the problem has none."""
        names, found, reached = self.problem.stages, list[Stage](), True
        for number, name in enumerate(names, 1):
            found.append(Stage(number, len(names), name, [each for each in self.checks if each.stage == name], reached))
            reached = found[-1].passed
        return found

    @property
    def stages_passed(self) -> int:
        """The number of stages that are passed; 0 if the problem has none."""
        return sum(stage.passed for stage in self.stages if stage.name)

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
