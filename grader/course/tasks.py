"""Finds the open tasks of the selected course, their files, and what a learner has reached in them."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from commandline.errors import UsageError
from commandline.spelling import nearest
from grader.course import catalog
from grader.course.course import FORGERIES, Course
from grader.course.log import Entry
from grader.course.selection import selected
from grader.problem import Problem
from grader.task import Standard, Task

SCORED = "scored"
"""The kind of entry of the log for a score with all seeds."""


class Best(NamedTuple):
    """The best score of a learner in a task, the name of its class, and all scores in order of time."""

    score: int
    standard: str
    scores: tuple[int, ...]


def names() -> list[str]:
    """Returns the names of all open tasks, in order."""
    return [listed.name for listed in selected().tasks]


def tasks() -> list[Task]:
    """Returns all open tasks, in order. Raises CourseError if the definition of one cannot be read."""
    return [_loaded(selected(), name) for name in names()]


def after(problems: Iterable[Problem]) -> list[Task]:
    """Returns the open tasks that come after one of these problems, in order. Raises CourseError."""
    known = {problem.name for problem in problems}
    return [_loaded(selected(), listed.name) for listed in selected().tasks if listed.after in known]


def problem_before(task: Task) -> Problem:
    """Returns the problem that a task comes after."""
    return catalog.load(next(listed.after for listed in selected().tasks if listed.name == task.label))


def part_of(problem: Problem) -> str:
    """Returns the title of the part of the course that a problem belongs to, or that an open task comes after."""
    return catalog.part_of(problem_before(problem) if isinstance(problem, Task) else problem)


def find(word: str) -> Task:
    """Returns the task with that name, or the path of a learner's file. Raises UsageError if there is none."""
    name, known = Path(word).name.removesuffix(".py"), names()
    if name in known:
        return _loaded(selected(), name)
    close = nearest(name, known)
    hint = f"Did you mean {close[0]!r}?" if close else f"There is {', '.join(known)}." if known else ""
    raise UsageError(f"There is no open task {word!r}. {hint or 'This course has none.'}")


def find_either(word: str) -> Problem:
    """Returns the open task with that name, or the problem that `catalog.find` returns."""
    return find(word) if word in names() else catalog.find(word)


def best(task: Task, entries: Iterable[Entry]) -> Best | None:
    """Returns a learner's best score in a task from the log; None before the first."""
    scores = [entry.number("score") for entry in entries if (entry.kind, entry.problem) == (SCORED, task.label)]
    scores = [score for score in scores if score]
    return Best(min(scores), task.standard(min(scores)), tuple(scores)) if scores else None


def class_file(task: Task, standard: Standard) -> Path:
    """Returns the path of the file that is in a class. A learner's bundle has none."""
    return task.home / "solutions" / task.label / f"{standard.name.replace(' ', '_')}.py"


def forgeries(task: Task) -> list[Path]:
    """Returns the files that claim work which they do not do."""
    return sorted((task.home / FORGERIES).glob(f"{task.label}_*.py"))


@cache
def _loaded(course: Course, name: str) -> Task:
    return catalog.defined_task(next(listed.folder for listed in course.tasks if listed.name == name))
