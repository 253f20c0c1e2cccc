"""Grades one submission of a class. Runs in each process of a batch, on this machine or another."""

import atexit
import os
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from commandline.errors import CommandError
from grader.course import cases, catalog
from grader.errors import CourseError
from grader.isolation.job import Job
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer
from grader.judge import cache as cache_
from grader.judge import judge, submission
from grader.judge.judge import GradeOptions
from grader.judge.reference import Reference
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.problem import Problem
from grader.report.json import PublicReport

CONTROL_EVERY = 50  # submissions between two checks that the reference still passes
KEPT_REFERENCES = 2  # problems whose reference worker keeps running


@dataclass(frozen=True)
class Task:
    """One submission to grade, self-contained, so that it can be sent to another machine."""

    learner: str
    problem: str
    filename: str
    sources: dict[str, str]
    seed: int
    timeout: float | None
    least: Level  # the lowest level of isolation that is accepted
    version: str  # of the course


@dataclass(frozen=True)
class Graded:
    """The result of a Task."""

    learner: str
    problem: str
    report: PublicReport


class EnvironmentMismatchError(CommandError):
    """This machine must not grade; the message says why."""

    exit_code = 2


def grade(task: Task) -> Graded:
    """Grades a submission. Raises EnvironmentMismatchError if the isolation is below the accepted level or the course differs
    from the one that made the task, CourseError if the reference no longer passes."""
    with _one_at_a_time:
        return _grader().grade(task)


def key(problem: Problem, sources: dict[str, str], filename: str, seed: int, timeout: float | None) -> str:
    """A hash of everything that decides a record: the same key means the same verdict."""
    parts = [part for item in sorted(sources.items()) for part in item]
    return cache_.digest([definition(problem.name), filename, str(seed), str(timeout), *parts])


@cache
def definition(name: str) -> str:
    """A hash of a problem and of the grader: definition, probes, reference, misconceptions and code."""
    problem = catalog.load(name)
    files = [path.read_bytes() for path in sorted(problem.folder.glob("*.py")) if path.name != "stub.py"]
    solution = catalog.solution_path(problem)
    ideas = solution.with_suffix(".toml").read_bytes()
    imported = [part for item in sorted(catalog.reference_sources(problem).items()) for part in item]
    return cache_.digest([cache_.environment(), *files, ideas, *imported])


class BatchGrader:
    """Grades submissions one after another, and keeps the fork server and the references between them."""

    def __init__(self) -> None:
        self.fork_server = ForkServer()
        self.references: dict[str, Reference] = {}
        self.since_control: dict[tuple[str, int], int] = {}
        atexit.register(self.close)

    def close(self) -> None:
        """Kills the processes that it started."""
        self.fork_server.close()
        for reference in self.references.values():
            reference.close()

    def grade(self, task: Task) -> Graded:
        problem = catalog.load(task.problem)
        if task.version != definition(task.problem):
            raise EnvironmentMismatchError(
                f"Problem {problem.label} differs from the one where the batch was started. Install the same version of the "
                "course, jax, flax, optax, orbax and numpy on both machines."
            )
        self._control(problem, task)
        source = Submission(task.filename, task.sources)
        report = self._run(problem, source, task)
        if report.exited:  # a single exit may be the machine's fault
            report = self._run(problem, source, task)
        return Graded(task.learner, task.problem, PublicReport.of(report))

    def _control(self, problem: Problem, task: Task) -> None:
        """Checks that the reference, graded as a submission, passes with enough isolation. This also compiles its programs."""
        count = self.since_control.get((problem.name, task.seed), CONTROL_EVERY)
        if count >= CONTROL_EVERY:
            source = submission.reference(problem)
            # The problem's own time limit: a busy machine must not stop the batch.
            report = self._run(problem, source, replace(task, timeout=None), keeps_programs=True)
            if report.verdict is not Verdict.PASS:
                first = report.first_failure
                raise CourseError(
                    f"The reference of problem {problem.label}, graded as a submission, is {report.verdict}: "
                    f"{first.check.name if first else ''}: {first.message if first else ''}"
                )
            if not report.isolation.level.reaches(task.least):
                raise EnvironmentMismatchError(
                    f"The isolation on this machine is {report.isolation}. `grade doctor` explains how to improve it; "
                    f"to grade anyway, pass --accept-isolation={report.isolation.level}."
                )
            count = 0
        self.since_control[problem.name, task.seed] = count + 1

    def _run(self, problem: Problem, source: Submission, task: Task, *, keeps_programs: bool = False) -> Report:
        programs = _programs(problem.name)
        job = Job(problem.name, problem.devices, problem.long_runs, programs=programs, keeps_programs=keeps_programs)
        options = GradeOptions(
            seed=task.seed, timeout=task.timeout, reference=self._reference(problem), job=job,
            cases=_cases(problem.name, task.seed), grade_imports=False, shrink=False,
        )  # fmt: skip
        return judge.grade(problem, source, self.fork_server, options)

    def _reference(self, problem: Problem) -> Reference:
        reference = self.references.pop(problem.name, None) or Reference(problem)
        self.references[problem.name] = reference  # now the most recent
        while len(self.references) > KEPT_REFERENCES:
            self.references.pop(next(iter(self.references))).close()
        return reference


@cache
def _programs(problem: str) -> Path | None:
    """The folder of the reference's programs: compiled by trusted code only, read by all submissions."""
    return cache_.programs([problem, "batch", *submission.reference(catalog.load(problem)).sources.values()])


@cache
def _cases(problem: str, seed: int) -> judge.CasesByGroup:
    """The same case objects for every submission, so that the reference answers for each of them once."""
    return cases.draw_all(catalog.load(problem), seed)


# A judge uses Hypothesis and one fork server, so it grades one submission at a time even if a scheduler has several threads.
_one_at_a_time = threading.Lock()
_grader = cache(BatchGrader)


def end_with_parent() -> None:
    """Makes this process exit when the one that started it is gone, even if that one was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
