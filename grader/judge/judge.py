"""One submission, one verdict. Never imports JAX or a submission: it sends cases and compares numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic

from grader import cases as cases_
from grader import course, diagnose, parts, recorded
from grader import submission as submission_
from grader.course import Misconception
from grader.diagnose import Evidence
from grader.flat import Mismatch, compare, error, select
from grader.problem import NUMERIC, Case, Check, Problem
from grader.reference import Answers, ask_ahead, drop_all
from grader.sandbox import Job, Zygote
from grader.session import Outcome, Say, Session, run_key
from grader.submission import Submission
from grader.verdict import CheckResult, Report, Verdict

SHRINK_SECONDS = 1.5


Probe = Callable[[Check, Case], Outcome]
Drawn = dict[str, list[Case]]


@dataclass
class Trial:
    """Something that answers probes, on trial: the reference beside it, the cases of a seed, and what was seen so far."""

    problem: Problem
    reference: Answers
    probe: Probe
    seed: int
    cases: dict[str, list[Case]]
    evidence: list[Evidence] = field(default_factory=list)
    _runs: dict[tuple[str, Case], Outcome] = field(default_factory=dict)

    def results(self) -> list[CheckResult]:
        """Every check."""
        return [self.judge(check) for check in self.problem.checks]

    def first_failure(self) -> CheckResult | None:
        """The first check that fails; those after it are not run."""
        return next((result for result in map(self.judge, self.problem.checks) if not result.passed), None)

    def misconception(self) -> Misconception | None:
        """The known idea that gives what was seen."""
        return diagnose.misconception(self.reference, self.evidence)

    def outcome(self, check: Check, case: Case) -> Outcome:
        """What the one on trial gives."""
        key = (run_key(check), case)
        if key not in self._runs:
            self._runs[key] = self.probe(check, case)
        return self._runs[key]

    def _result(self, check: Check, case: Case) -> CheckResult:
        """One check on one case."""
        expected = self.reference.ask(check, case)
        outcome = self.outcome(check, case)
        if outcome.failure:
            self.reference.drop(check, case)
            about = None if outcome.failure.kind == "bad_entry" else case  # a missing name is missing in all cases
            return CheckResult(check, outcome.failure.verdict, outcome.failure.sentence(), case=about)
        mismatch = difference(check, expected.result(), outcome)
        if mismatch is None:
            return CheckResult(check, Verdict.PASS, "; ".join(outcome.notes), case=case)
        message = mismatch.sentence() + _because(outcome.notes)
        return CheckResult(check, Verdict.FAIL, message, mismatch, case)

    def judge(self, check: Check) -> CheckResult:
        """One check on all its cases, up to the first that fails."""
        for case in self.cases[check.cases]:
            result = self._result(check, case)
            self.evidence.append(Evidence(check, case, self.outcome(check, case), not result.passed))
            if not result.passed:
                break
        return result

    def error(self, item: Evidence) -> float:
        """How far off an outcome is, in units of its check's tolerance."""
        expected = select(self.reference.ask(item.check, item.case).result().leaves, item.check.leaves)
        return error(expected, select(item.outcome.leaves, item.check.leaves), item.check.tolerance, item.check.compare)

    def shrink(self, found: CheckResult) -> CheckResult:
        """The same failure on the smallest case that shows it."""
        check, case = found.check, found.case
        if case is None or found.mismatch is None or case is self.cases[check.cases][0]:
            return found  # the first case is the simplest there is
        smaller = found

        def fails(candidate: Case) -> bool:
            nonlocal smaller
            result = self._result(check, candidate)
            if result.mismatch is None:
                return False
            smaller = result
            return True

        cases_.shrink(self.problem, case, self.seed, fails, SHRINK_SECONDS)
        return smaller

    def guilty_part(self, found: CheckResult) -> str:
        """A sentence on the part of a module that is first wrong; empty if the check is not on a module's values."""
        entry = found.check.options.get("entry", "")
        if not (found.mismatch and found.mismatch.kind == "value" and found.check.probe == "values" and found.case):
            return ""
        if not self.problem.entry(entry).is_module:
            return ""
        question = parts.check(entry)
        return parts.guilty(self.reference.ask(question, found.case).result(), self.outcome(question, found.case))


def grade(
    problem: Problem,
    submission: Submission,
    zygote: Zygote,
    *,
    reference: Answers | None = None,
    seed: int = 0,
    timeout: float | None = None,
    look_at_imports: bool = True,
    say: Say = lambda text: None,
    job: Job | None = None,
    drawn: Drawn | None = None,
    shrinks: bool = True,
) -> Report:
    """Grades a submission in a worker of its own.

    `timeout` is in seconds, for all of the submission's own code together. Where it fails and `look_at_imports`, the course
    modules that it imports are graded, too; and where it `shrinks`, the smallest case that fails is looked for. `say` is told how
    far it is. `job` is what its worker is started for, if not the usual; `drawn` are the cases of this seed, if they are there
    already. Raises CourseError if the problem itself is unsound.
    """
    start = monotonic()
    owned = reference is None
    reference = reference or recorded.reference(problem)
    worker = zygote.worker(job or submission_.job(problem, submission))
    session = Session(problem, worker, timeout or problem.timeout, say)
    part = ""
    try:
        trial = Trial(problem, reference, partial(session.probe, ""), seed, drawn or cases_.draw_all(problem, seed))
        ask_ahead(reference, problem.checks, trial.cases)
        failure = session.load("", submission)
        if failure:
            drop_all(reference, problem.checks, trial.cases)
            results = [CheckResult(check, failure.verdict, failure.sentence()) for check in problem.checks]
            case = trial.cases[problem.checks[0].cases][0]
            trial.evidence.append(Evidence(problem.checks[0], case, Outcome(failure=failure), True))
        else:
            results = trial.results()
        first = next((result for result in results if not result.passed), None)
        idea = None
        if first and first.verdict is not Verdict.NOT_ATTEMPTED:
            say("looking for the idea behind it")
            idea = trial.misconception()
            if not failure:
                smallest = trial.shrink(first) if shrinks and reference.can_shrink else first
                results = [smallest if result is first else result for result in results]
                part = "" if idea else trial.guilty_part(smallest)
        failed = next((item.outcome.failure for item in trial.evidence if item.wrong), failure)
        frames = failed.frames_text() if failed and failed.kind != "not_implemented" else ""
    finally:
        stdout = worker.close()
        if owned:
            reference.close()
    earlier = None
    if first and look_at_imports:
        earlier = _earlier_fault(problem, submission, zygote, seed, first.verdict, say)
    return Report(
        problem, submission.filename, results, idea, frames, stdout=stdout, isolation=session.isolation,
        seconds=monotonic() - start, part=part, earlier=earlier, notes=submission.notes,
        died=session.ended is not None and session.ended.kind == "exit",
    )  # fmt: skip


def _earlier_fault(
    problem: Problem, submission: Submission, zygote: Zygote, seed: int, verdict: Verdict, say: Say
) -> Report | None:
    """The report on the first course module, by number, that the submission imports and that fails its own checks. One that
    is not written yet counts where that is the `verdict`."""
    fine = {Verdict.PASS} | ({Verdict.NOT_ATTEMPTED} - {verdict})
    known = course.names()
    for name in sorted(set(submission.sources) & set(known) - {problem.name}):
        say(f"looking at {name}.py, which it imports")
        source = Submission(f"{name}.py", submission.sources)
        earlier = course.load(name)
        report = grade(earlier, source, zygote, seed=seed, look_at_imports=False)
        if report.verdict not in fine:
            return report
    return None


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
