"""Runs a program against the checks of a problem, as the grader does, but without a word on why it fails."""

from collections.abc import Iterator
from typing import NamedTuple

from commandline.errors import UsageError
from grader.course import cases as cases_
from grader.course import catalog, imports
from grader.isolation.level import Level
from grader.isolation.sandbox import Workers
from grader.judge import bundled_outputs, submission
from grader.judge.examiner import Examiner
from grader.judge.judge import CasesByGroup, Comparison
from grader.judge.reference import Answers
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult
from grader.judge.worker_session import Outcome
from grader.problem import Problem


class Failed(NamedTuple):
    """A check that a program fails, and the outcome with which it does. A file that cannot be imported has none."""

    result: CheckResult
    outcome: Outcome | None = None


def failures(
    problem: Problem, source: Submission, workers: Workers, *, reference: Answers | None = None,
    cases: CasesByGroup | None = None, least: Level = Level.WEAK,
) -> Iterator[Failed]:  # fmt: skip
    """Yields the checks that a program fails, on the cases of seed 0, in order and as they are found.

    A check that could not be judged, because something else must be right first, is there only if all others pass.
    Callers that try several programs share `reference` and `cases` between them. Raises UsageError if the isolation of
    the program is below `least`.
    """
    own = reference is None
    answers = reference or bundled_outputs.reference(problem, workers)
    examiner = Examiner(problem, workers, submission.job(problem), problem.timeout)
    try:
        comparison = Comparison(problem, answers, examiner.probe, 0, cases or cases_.draw_all(problem, 0))
        if failure := examiner.load(source):
            yield Failed(CheckResult(problem.checks[0], failure.verdict, failure.sentence()))
            return
        if not examiner.isolation.level.reaches(least):
            raise UsageError(
                f"The isolation on this machine is {examiner.isolation}. `grade doctor` explains how to improve it."
            )
        waiting, found = None, False
        for check in problem.checks:
            result = comparison.judge(check)
            if not result.passed and result.judged:
                found = True
                yield Failed(result, comparison.evidence[-1].outcome)
            waiting = waiting or (None if result.passed else Failed(result, comparison.evidence[-1].outcome))
        if waiting and not found:
            yield waiting
    finally:
        examiner.close()
        if own:
            answers.close()


def source_of(problem: Problem, text: str) -> Submission:
    """Returns a program with the references of the modules that it imports."""
    return Submission(f"{problem.name}.py", imports.with_imports(problem.name, text, catalog.references(problem)))
