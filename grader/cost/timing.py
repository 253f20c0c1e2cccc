"""The computing time of a program that is no traced program, beside that of the reference, and what a partner counted.

Both run in turns on this machine, in processes of the same kind. No other figure depends on the machine.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from grader.course import cases, catalog
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Outcome, Session, in_stages
from grader.problem import Case, Check, Problem

ROUNDS = 3
LONG_ENOUGH = 0.2  # seconds of computing, which the kernel counts in hundredths
MOST_REPETITIONS = 256
PATIENCE = 20.0  # times the limit of a grading


@dataclass(frozen=True)
class Timing:
    """The computing time of one run of a check, in seconds.

    Attributes:
        check: The name of the check.
        seconds: The submission's.
        reference_seconds: The reference's; None where the course has no reference.
        counted: What the partner of the check counted, by name.
        reference_counted: The same for the reference.
    """

    check: str
    seconds: float
    reference_seconds: float | None
    counted: Mapping[str, int]
    reference_counted: Mapping[str, int]


def run_of(problem: Problem) -> tuple[Check, Case]:
    """Returns the run that is timed: one with a partner or a limit of time, if there is one, with the largest case."""

    def rank(run: tuple[Check, Case]) -> tuple[bool, float, int]:
        check, case = run
        return bool(check.partner), check.cpu_seconds, math.prod(case.sizes.values())

    return max(((check, case) for check in problem.checks for case in cases.draw(problem, check.cases, 0)), key=rank)


def time(problem: Problem, submission: Submission, workers: Workers) -> Timing | Failure:
    """Returns the timing of a submission. Raises WorkerStartError."""
    check, case = run_of(problem)
    sources = [submission]
    if catalog.has_solution(problem):
        sources.append(submission_.reference(problem))
    sessions = [Session(problem, workers.worker(submission_.job(problem)), PATIENCE * problem.timeout) for _ in sources]
    try:
        for session, source in zip(sessions, sources, strict=True):
            if failure := session.load("", source):
                return failure
        first = [_run(session, check, case) for session in sessions]
        if failure := next((outcome.failure for outcome, _ in first if outcome.failure), None):
            return failure
        seconds = [each for _, each in first]
        if not problem.long_runs:
            again = max(_enough(session, check, case) for session in sessions)
            rounds = [[_repeated(session, check, case, again) for session in sessions] for _ in range(ROUNDS)]
            seconds = [median(column) for column in zip(*rounds, strict=True)]
        counts = [_counted(check, outcome) for outcome, _ in first]
        if len(sources) == 1:
            return Timing(check.name, seconds[0], None, counts[0], {})
        return Timing(check.name, seconds[0], seconds[1], counts[0], counts[1])
    finally:
        for session in sessions:
            session.worker.close()


def _run(session: Session, check: Check, case: Case) -> tuple[Outcome, float]:
    before = session.worker.cpu_seconds()
    plain = replace(check, cpu_seconds=0.0)
    outcome = in_stages(plain, case, "both", (), lambda stage, frame: session.run(frame))
    return outcome, session.worker.cpu_seconds() - before


def _enough(session: Session, check: Check, case: Case) -> int:
    """Returns how many runs take long enough to be measured."""
    again = 1
    while again < MOST_REPETITIONS and again * _repeated(session, check, case, again) < LONG_ENOUGH:
        again *= 4
    return again


def _repeated(session: Session, check: Check, case: Case, times: int) -> float:
    return sum(_run(session, check, case)[1] for _ in range(times)) / times


def _counted(check: Check, outcome: Outcome) -> dict[str, int]:
    """Returns the single integers among the results of a check with a partner, by the last part of their names."""
    leaves = outcome.leaves if check.partner else ()
    return {
        leaf.path.rpartition(".")[2]: int(leaf.values)
        for leaf in leaves
        if leaf.values.shape == () and leaf.values.dtype.kind in "iu"
    }
