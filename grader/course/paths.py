"""The paths through a course: selections of its problems, in an order of their own, for those who want one thing.

A path is a `[[path]]` of `course.toml`. The learner's choice stands in the log of the workspace. Without one, the path
is the whole course.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from commandline.errors import UsageError
from commandline.spelling import nearest
from grader.course import catalog
from grader.course.selection import selected
from grader.problem import Problem

EVERYTHING = "everything"  # the name of the path that is no selection


@dataclass(frozen=True)
class CoursePath:
    """A path.

    Attributes:
        name: The word that commands take.
        title: The title, as learners read it.
        then: What one can do afterwards, in a sentence.
        built: What one has built afterwards, as a phrase; may be empty.
        problems: The problems, in order.
        milestones: What one has after a problem and those before it, by name of the problem.
    """

    name: str
    title: str
    then: str
    built: str
    problems: tuple[Problem, ...]
    milestones: Mapping[str, str]

    @property
    def minutes(self) -> int:
        """The time that its problems take, as their authors estimate it."""
        return sum(problem.minutes for problem in self.problems)

    @property
    def hours(self) -> str:
        """The same in words; empty if it is unknown."""
        return f"about {round(self.minutes / 60) or 1} h" if self.minutes else ""

    def done(self, passed: Iterable[str]) -> int:
        """Returns how many of its problems are among those that were passed, by name."""
        names = set(passed)
        return sum(problem.name in names for problem in self.problems)

    def milestone(self, passed: Container[str]) -> str:
        """Returns what one has at the last milestone up to which all problems are passed; empty before the first."""
        reached = ""
        for problem in self.problems:
            if problem.name not in passed:
                break
            reached = self.milestones.get(problem.name, reached)
        return reached


def every() -> list[CoursePath]:
    """Returns the paths of the course, in order; the last is the whole course. Only problems that can be read are on
    them."""
    problems = {problem.name: problem for problem in catalog.problems()}
    found = [
        CoursePath(
            each.name, each.title, each.then, each.built,
            tuple(problems[name] for name in each.problems if name in problems), each.done,
        )
        for each in selected().paths
    ]  # fmt: skip
    return [*found, CoursePath(EVERYTHING, "Everything", "", "", tuple(problems.values()), {})]


def find(word: str) -> CoursePath:
    """Returns the path with that name. Raises UsageError, which suggests the nearest name, if there is none."""
    by_name = {path.name: path for path in every()}
    if word in by_name:
        return by_name[word]
    close = nearest(word, by_name)
    hint = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(by_name)}."
    raise UsageError(f"There is no path {word!r}. {hint}")
