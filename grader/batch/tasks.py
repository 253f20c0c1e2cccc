"""Grades one submission of a class. Runs in every process of a batch, on this machine or another."""

import atexit
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

from commandline.errors import CommandError
from grader.course import cases, catalog
from grader.errors import CourseError
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer
from grader.judge import cache as cache_
from grader.judge import judge, semantics, submission
from grader.judge.judge import Shared
from grader.judge.options import GradeOptions
from grader.judge.reference import Reference
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.problem import Problem
from grader.report import html_report
from grader.report.json_report import PublicReport

CONTROL_EVERY = 50  # submissions, after which the reference must pass again
KEPT_REFERENCES = 2  # problems whose reference worker keeps running


@dataclass(frozen=True)
class Task:
    """One submission to grade, self-contained so that it can be sent to another machine.

    Attributes:
        learner: The learner's name.
        problem: The problem's name.
        attempt: Identifies it among the learner's submissions for the problem.
        filename: The name of the file in reports.
        sources: The texts by module.
        seed: Draws the cases.
        timeout: The limit in seconds of computing; None means the problem's.
        least: The lowest level of isolation that is accepted.
        version: The hash of the problem and the grader.
        explain: Whether to make a report that shows the smallest failing case.
    """

    learner: str
    problem: str
    attempt: str
    filename: str
    sources: dict[str, str]
    seed: int
    timeout: float | None
    least: Level
    version: str
    explain: bool = False


@dataclass(frozen=True)
class Graded:
    """The result of a Task. `article` is the whole report as HTML if the task asked to explain."""

    learner: str
    problem: str
    report: PublicReport
    article: str = ""


class EnvironmentMismatchError(CommandError):
    """This machine cannot be trusted to grade. The message gives the reason."""

    exit_code = 2


def grade(task: Task) -> Graded:
    """Grades a submission.

    Raises EnvironmentMismatchError if the isolation is below the accepted level or the course differs from the one that
    created the task, and CourseError if the reference does not pass.
    """
    with _one_at_a_time:
        return _grader().grade(task)


def key(problem: Problem, sources: Mapping[str, str], filename: str, seed: int, timeout: float | None) -> str:
    """Returns a hash of everything that decides a result: the same key means the same verdict."""
    parts = [part for item in sorted(sources.items()) for part in item]
    return cache_.digest([semantics_of(problem.name), filename, str(seed), str(timeout), *parts])


@cache
def semantics_of(name: str) -> str:
    """Returns the fingerprint of what decides a verdict on a problem."""
    return semantics.of(catalog.load(name))


@cache
def definition(name: str) -> str:
    """Returns a hash of a problem and of the grader, every file of them. The machines of a batch have the same."""
    problem = catalog.load(name)
    definition_files = [path.read_bytes() for path in sorted(problem.folder.glob("*.py")) if path.name != "stub.py"]
    misconceptions = catalog.text_of(catalog.solution_path(problem).with_suffix(".toml"))
    references = [part for item in sorted(catalog.reference_sources(problem).items()) for part in item]
    return cache_.digest([cache_.environment(), *definition_files, misconceptions, *references])


class BatchGrader:
    """Grades submissions one after another, reusing the fork server and the reference workers.

    `control` is a connection to a zygote that several processes share.
    """

    control: ClassVar[socket.socket | None] = None

    def __init__(self) -> None:
        self.fork_server = ForkServer(self.control)
        self.references: dict[str, Reference] = {}
        self.since_control: dict[tuple[str, int], int] = {}
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the fork server and the reference workers."""
        self.fork_server.close()
        for reference in self.references.values():
            reference.close()

    def grade(self, task: Task) -> Graded:
        """Grades a submission. Raises what the module's `grade` does."""
        problem = catalog.load(task.problem)
        if task.version != definition(task.problem):
            raise EnvironmentMismatchError(
                f"Problem {problem.label} differs between this machine and the one that started the batch. Install the "
                "same version of the course, jax, flax, optax, orbax and numpy on both."
            )
        self._control(problem, task)
        source = Submission(task.filename, task.sources)
        report = self._run(problem, source, task)
        if report.exited:  # a single exit may be the machine's fault
            report = self._run(problem, source, task)
        article = html_report.render(report, is_final=True) if task.explain else ""
        return Graded(task.learner, task.problem, PublicReport.of(report), article)

    def _control(self, problem: Problem, task: Task) -> None:
        """Checks that the reference, graded as a submission, passes with enough isolation."""
        count = self.since_control.get((problem.name, task.seed), CONTROL_EVERY)
        if count >= CONTROL_EVERY:
            source = submission.reference(problem)
            # The problem's own time limit: a busy machine must not stop the batch.
            report = self._run(problem, source, replace(task, timeout=None, explain=False))
            if report.verdict is not Verdict.PASS:
                failed = report.first_failure
                raise CourseError(
                    f"The reference of problem {problem.label}, graded as a submission, got {report.verdict}: "
                    f"{failed.check.name if failed else ''}: {failed.message if failed else ''}"
                )
            if not report.isolation.level.reaches(task.least):
                raise EnvironmentMismatchError(
                    f"The isolation on this machine is {report.isolation}. `grade doctor` explains how to improve it; "
                    f"to grade anyway, pass --accept-isolation={report.isolation.level}."
                )
            count = 0
        self.since_control[problem.name, task.seed] = count + 1

    def _run(self, problem: Problem, source: Submission, task: Task) -> Report:
        options = GradeOptions(task.seed, task.timeout, show=task.explain, shrink=task.explain, grade_imports=False)
        shared = Shared(self._reference(problem), cases.drawn_once(problem.name, task.seed))
        return judge.grade(problem, source, self.fork_server, options, shared)

    def _reference(self, problem: Problem) -> Reference:
        reference = self.references.pop(problem.name, None) or Reference(problem, self.fork_server)
        self.references[problem.name] = reference  # now the most recent
        while len(self.references) > KEPT_REFERENCES:
            self.references.pop(next(iter(self.references))).close()
        return reference


# Hypothesis and the fork server are not thread-safe, and a scheduler may run several threads.
_one_at_a_time = threading.Lock()
_grader = cache(BatchGrader)
