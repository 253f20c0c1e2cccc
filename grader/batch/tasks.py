"""Grades one submission of a class: what runs in each of the batch's processes, here or on another machine."""

import atexit
import os
import threading
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from commandline.errors import CommandError
from grader import cache as cache_
from grader import cases, course, judge, submission
from grader.errors import CourseError
from grader.problem import Problem
from grader.reference import Reference
from grader.report import json as report_json
from grader.sandbox import Job, Zygote
from grader.submission import Submission
from grader.verdict import Report, Verdict

LEVELS = ("weak", "partial", "strict")
CONTROL_EVERY = 50  # submissions between two looks at whether a right one still passes
KEPT_REFERENCES = 2  # problems whose reference worker is kept


@dataclass(frozen=True)
class Task:
    """One submission to be graded, with all that this takes. It can be sent to another machine."""

    learner: str
    problem: str
    filename: str
    sources: dict[str, str]
    seed: int
    timeout: float | None
    least: str  # level of isolation
    version: str  # of the course


@dataclass(frozen=True)
class Graded:
    """What came of it. `report` is the JSON report."""

    learner: str
    problem: str
    verdict: str
    score: int
    report: dict[str, Any] = field(default_factory=dict)


class Unfit(CommandError):
    """This machine, as it is, may not grade; the message says why."""

    exit_code = 2


def grade(task: Task) -> Graded:
    """Grades it. Raises Unfit if the isolation here is less than asked for or the course is another, CourseError if a right
    submission no longer passes."""
    with _one_at_a_time:
        return _desk().grade(task)


def key(problem: Problem, sources: dict[str, str], filename: str, seed: int, timeout: float | None) -> str:
    """What decides a record: the same key, the same verdict."""
    parts = [part for item in sorted(sources.items()) for part in item]
    return cache_.digest([definition(problem.name), filename, str(seed), str(timeout), *parts])


@cache
def definition(name: str) -> str:
    """A hash of a problem: its definition, probes, reference and misconceptions, and of the grader."""
    problem = course.load(name)
    files = [path.read_bytes() for path in sorted(problem.folder.glob("*.py")) if path.name != "stub.py"]
    solution = course.solution_path(problem)
    ideas = solution.with_suffix(".toml").read_bytes()
    imported = [part for item in sorted(course.reference_sources(problem).items()) for part in item]
    return cache_.digest([cache_.environment(), *files, ideas, *imported])


class _Desk:
    """What a grading process keeps from one submission to the next."""

    def __init__(self) -> None:
        self.zygote = Zygote()
        self.references: dict[str, Reference] = {}
        self.since_control: dict[tuple[str, int], int] = {}
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the processes that this one started."""
        self.zygote.close()
        for reference in self.references.values():
            reference.close()

    def grade(self, task: Task) -> Graded:
        problem = course.load(task.problem)
        if task.version != definition(task.problem):
            raise Unfit(
                f"Problem {problem.label} is not the same here as where the batch was started: another version of the "
                "course, of jax, flax, optax, orbax or numpy, or another system."
            )
        self._control(problem, task)
        source = Submission(task.filename, task.sources)
        report = self._run(problem, source, task)
        if report.died:  # once may have been the machine's fault
            report = self._run(problem, source, task)
        return Graded(task.learner, task.problem, str(report.verdict), report.score, report_json.as_object(report))

    def _control(self, problem: Problem, task: Task) -> None:
        """The reference, graded as a submission, passes, and does so isolated enough. It also leaves its programs compiled."""
        count = self.since_control.get((problem.name, task.seed), CONTROL_EVERY)
        if count >= CONTROL_EVERY:
            source = submission.reference(problem)
            # Its own time, whatever a submission may take: a busy machine is no reason to stop.
            report = self._run(problem, source, replace(task, timeout=None), keeps_programs=True)
            level = report.isolation.partition(":")[0]
            if report.verdict is not Verdict.PASS:
                first = report.first_failure
                raise CourseError(
                    f"The reference of problem {problem.label}, graded as a submission, is {report.verdict}: "
                    f"{first.check.name if first else ''}: {first.message if first else ''}"
                )
            if level not in LEVELS or LEVELS.index(level) < LEVELS.index(task.least):
                raise Unfit(
                    f"The isolation here is {report.isolation}. `grade doctor` says how to get more; to accept it all the "
                    f"same: --accept-isolation={level}."
                )
            count = 0
        self.since_control[problem.name, task.seed] = count + 1

    def _run(self, problem: Problem, source: Submission, task: Task, *, keeps_programs: bool = False) -> Report:
        programs = _programs(problem.name)
        job = Job(problem.name, problem.devices, problem.long_runs, cache=programs, keeps_programs=keeps_programs)
        return judge.grade(
            problem, source, self.zygote, reference=self._reference(problem), seed=task.seed, timeout=task.timeout,
            look_at_imports=False, job=job, drawn=_drawn(problem.name, task.seed), shrinks=False,
        )  # fmt: skip

    def _reference(self, problem: Problem) -> Reference:
        found = self.references.pop(problem.name, None) or Reference(problem)
        self.references[problem.name] = found  # now the newest
        while len(self.references) > KEPT_REFERENCES:
            self.references.pop(next(iter(self.references))).close()
        return found


@cache
def _programs(problem: str) -> Path | None:
    """Where the reference's programs are: compiled by trusted code only, and read by all."""
    return cache_.programs([problem, "batch", *submission.reference(course.load(problem)).sources.values()])


@cache
def _drawn(problem: str, seed: int) -> judge.Drawn:
    """The same cases for every submission, so that the reference's answers to them are, too."""
    return cases.draw_all(course.load(problem), seed)


# A judge uses Hypothesis and one zygote, so it does one thing at a time, also where a scheduler has several threads.
_one_at_a_time = threading.Lock()
_desk = cache(_Desk)


def end_with_parent() -> None:
    """Lets this process not outlive the one that started it, even if that was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
