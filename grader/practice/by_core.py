"""A test-out: a problem passed by its core alone, by somebody who knows it, so that what builds on it opens."""

from pathlib import Path
from typing import NamedTuple

from commandline.errors import UsageError
from grader.course import log
from grader.course.workspace import Workspace
from grader.practice import short_form
from grader.problem import Problem


class Begun(NamedTuple):
    """A test-out that has begun: where the file before it is kept, None if there was nothing to keep, and the number of
    lines to write."""

    kept: Path | None
    lines: int


def lines(space: Workspace, problem: Problem) -> int:
    """Returns the number of lines that a test-out asks for; 0 where there is none: learners get no core of the problem,
    or this one has passed it."""
    offered = short_form.is_offered(problem) and not space.standing(problem).passed
    return short_form.named(problem, short_form.REFERENCE).count if offered else 0


def begin(space: Workspace, problem: Problem) -> Begun:
    """Replaces the learner's file by the reference without its core. Raises UsageError if learners get no core of the
    problem, or if this one has passed it."""
    frame = short_form.named(problem, short_form.REFERENCE)
    if space.standing(problem).passed:
        raise UsageError(
            f"You have passed problem {problem.label} already. `grade review {problem.label} --core` asks for its core "
            "again."
        )
    space.add(problem)
    kept = space.put(problem, frame.stub)
    space.record("begun", problem.name, form=log.CORE)
    return Begun(kept, frame.count)
