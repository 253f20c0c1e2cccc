"""One submission, one verdict. Never imports JAX or a submission: it sends cases and compares numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from grader import cases as cases_
from grader import diagnose
from grader.diagnose import Evidence
from grader.flat import Mismatch, compare, select
from grader.problem import NUMERIC, Case, Check, Problem
from grader.reference import Reference, ask_ahead
from grader.sandbox import Worker
from grader.session import Failure, Outcome, Session, run_key
from grader.submission import Submission
from grader.verdict import CheckResult, Report, Verdict

SHRINK_SECONDS = 1.5


@dataclass
class _Trial:
    """A submission on trial: its session, the reference, and what was seen so far."""

    session: Session
    reference: Reference
    cases: dict[str, list[Case]]
    evidence: list[Evidence] = field(default_factory=list)
    _runs: dict[tuple[str, Case], Outcome] = field(default_factory=dict)

    def outcome(self, check: Check, case: Case) -> Outcome:
        key = (run_key(check), case)
        if key not in self._runs:
            self._runs[key] = self.session.probe("", check, case)
        return self._runs[key]

    def result(self, check: Check, case: Case) -> CheckResult:
        """One check on one case."""
        expected = self.reference.ask(check, case)
        outcome = self.outcome(check, case)
        if outcome.failure:
            return CheckResult(check, outcome.failure.verdict, outcome.failure.sentence(), case=case)
        mismatch = difference(check, expected.result(), outcome)
        if mismatch is None:
            return CheckResult(check, Verdict.PASS, "; ".join(outcome.notes), case=case)
        message = mismatch.sentence() + _because(outcome.notes)
        return CheckResult(check, Verdict.FAIL, message, mismatch, case)

    def judge(self, check: Check) -> CheckResult:
        """One check on all its cases, up to the first that fails."""
        for case in self.cases[check.cases]:
            result = self.result(check, case)
            self.evidence.append(Evidence(check, case, self.outcome(check, case), not result.passed))
            if not result.passed:
                break
        return result

    def shrink(self, found: CheckResult, seed: int) -> CheckResult:
        """The same failure on the smallest case that shows it."""
        check, case = found.check, found.case
        if case is None or found.mismatch is None or case is self.cases[check.cases][0]:
            return found  # the first case is the simplest there is
        smaller = found

        def fails(candidate: Case) -> bool:
            nonlocal smaller
            result = self.result(check, candidate)
            if result.mismatch is None:
                return False
            smaller = result
            return True

        cases_.shrink(self.session.problem, case, seed, fails, SHRINK_SECONDS)
        return smaller


def grade(
    problem: Problem,
    submission: Submission,
    worker: Worker,
    *,
    reference: Reference | None = None,
    seed: int = 0,
    timeout: float | None = None,
) -> Report:
    """Grades a submission in a worker that was started for it, and closes the worker.

    `timeout` is in seconds, for all of the submission's own code together. Raises CourseError if the problem itself is
    unsound.
    """
    start = monotonic()
    owned = reference is None
    reference = reference or Reference(problem)
    session = Session(problem, worker, timeout or problem.timeout)
    try:
        groups = {check.cases for check in problem.checks}
        trial = _Trial(session, reference, {group: cases_.draw(problem, group, seed) for group in sorted(groups)})
        ask_ahead(reference, problem.checks, trial.cases)
        results, failure = _results(trial, submission)
        first = next((result for result in results if not result.passed), None)
        idea = None
        if first and failure and failure.kind != "not_implemented":
            idea = diagnose.misconception(reference, _load_evidence(trial, problem.checks[0], failure))
        elif first and first.verdict is not Verdict.NOT_ATTEMPTED:
            idea = diagnose.misconception(reference, trial.evidence)
            results = [trial.shrink(result, seed) if result is first else result for result in results]
        failed = next((item.outcome.failure for item in trial.evidence if item.wrong), failure)
        frames = failed.frames_text() if failed and failed.kind != "not_implemented" else ""
    finally:
        stdout = worker.close()
        if owned:
            reference.close()
    return Report(
        problem, submission.filename, results, idea, frames, stdout=stdout, isolation=session.isolation,
        seconds=monotonic() - start,
    )  # fmt: skip


def _results(trial: _Trial, submission: Submission) -> tuple[list[CheckResult], Failure | None]:
    failure = trial.session.load("", submission)
    checks = trial.session.problem.checks
    if failure:
        return [CheckResult(check, failure.verdict, failure.sentence()) for check in checks], failure
    return [trial.judge(check) for check in checks], None


def _load_evidence(trial: _Trial, check: Check, failure: Failure) -> Sequence[Evidence]:
    return [Evidence(check, case, Outcome(failure=failure), True) for case in trial.cases[check.cases][:1]]


def difference(check: Check, expected: Outcome, got: Outcome) -> Mismatch | None:
    """The first mismatch of what a check looks at, its coded numbers turned into words."""
    ours, theirs = select(expected.leaves, check.leaves), select(got.leaves, check.leaves)
    if not theirs and ours:
        return Mismatch("missing", ours[0].path, str(ours[0]), "nothing", hint=_because(got.notes))
    tolerance = NUMERIC if got.numeric and check.leaves == "gradient" else check.tolerance
    found = compare(ours, theirs, tolerance, check.compare)
    if found and found.kind == "value" and check.words:
        words = {str(number): word for number, word in check.words.items()}
        want, have = (words.get(text, text) for text in (found.expected, found.got))
        return replace(found, expected=want, got=have, off_by=None)
    return found


def refused(problem: Problem, filename: str, verdict: Verdict, message: str) -> Report:
    """The report on a file that was never run."""
    return Report(problem, filename, [CheckResult(check, verdict, message) for check in problem.checks])


def _because(notes: Sequence[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""
