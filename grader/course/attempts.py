"""A learner's attempts at an open task that is a folder: what the log holds of each, from its beginning to its score.

What counts is in the log before anything is run, and one line both ends an attempt and scores it. So a command that is
killed loses nothing, and the next one continues.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from commandline import files
from commandline.errors import UsageError
from grader.course import tasks
from grader.course.log import Entry
from grader.course.workspace import Workspace
from grader.task import Task

DRAWN, ENDED = "drawn", "ended"
"""The kinds of entries of the log with which an attempt begins, and ends without a score."""
Say = Callable[[str], None]
T = TypeVar("T", bound=Task)


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """One attempt, as the log holds it.

    Attributes:
        space: The workspace.
        task: The task.
        number: Its place among the attempts at the task, from 1 on.
        begun: The entry with which it begins, of the kind BEGINS.
        later: The entries about it that come after, in order.
    """

    BEGINS: ClassVar[str] = DRAWN

    space: Workspace
    task: T
    number: int
    begun: Entry
    later: tuple[Entry, ...] = ()

    @classmethod
    def all(cls, space: Workspace, task: T) -> list[Self]:
        """Returns all attempts at a task, in the order in which they began."""
        entries = [each for each in space.entries() if each.problem == task.label]
        return [
            cls(space, task, number, first, tuple(each for each in entries if each.text("begun") == first.id))
            for number, first in enumerate((each for each in entries if each.kind == cls.BEGINS), 1)
        ]

    @classmethod
    def under_way(cls, space: Workspace, task: T) -> Self | None:
        """Returns the last attempt that has not ended; None if all have."""
        return next((each for each in reversed(cls.all(space, task)) if not each.ended), None)

    @classmethod
    def begin(cls, space: Workspace, task: T, **facts: Any) -> Self:
        """Notes a new attempt with these facts. Raises UsageError."""
        return cls(space, task, len(cls.all(space, task)) + 1, record(space, cls.BEGINS, task, **facts))

    @classmethod
    def wanted(cls, space: Workspace, task: T) -> list[str]:
        """Returns the names that the learner has missed and not found since. They come first in the next draw."""
        wanted: dict[str, None] = {}
        for ended in (each.ended for each in cls.all(space, task)):
            if ended:
                wanted = {name: None for name in wanted if name not in ended.names("found")}
                wanted |= dict.fromkeys(ended.names("missed"))
        return list(wanted)

    def note(self, kind: str, **facts: Any) -> Self:
        """Notes an entry about it. Returns the attempt with it. Raises UsageError."""
        entry = record(self.space, kind, self.task, begun=self.begun.id, **facts)
        return replace(self, later=(*self.later, entry))

    def end(self, score: int | None, **facts: Any) -> Self:
        """Notes its end, and the score if there is one. Returns the attempt with it. Raises UsageError."""
        return self.note(ENDED, **facts) if score is None else self.note(tasks.SCORED, score=max(score, 1), **facts)

    def entries(self, kind: str) -> list[Entry]:
        """Returns the entries of a kind about it."""
        return [each for each in self.later if each.kind == kind]

    @property
    def ended(self) -> Entry | None:
        """The entry that ended it; None while it is under way."""
        return next((each for each in self.later if each.kind in (ENDED, tasks.SCORED)), None)


def record(space: Workspace, kind: str, task: Task, **facts: Any) -> Entry:
    """Notes an entry about a task, in a folder that is made if there is none: a log is kept in a folder only. Raises
    UsageError."""
    try:
        space.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{space.folder} cannot be written: {error.strerror}.") from None
    return space.record(kind, task.label, **facts)


def write_missing(texts: Mapping[Path, str]) -> list[Path]:
    """Writes the files that are missing. Returns their paths. Raises UsageError."""
    new = [path for path in texts if not path.exists()]
    for path in new:
        files.write(path, texts[path])
    return new
