"""A learner's file: its text, and the course modules beside it that it imports."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from commandline.errors import UsageError
from grader import cache, course, notebook
from grader.problem import Problem
from grader.sandbox import Job

MAX_SIZE = 1 << 20
MAX_NOTEBOOK = 8 << 20


class Unreadable(Exception):
    """The file is there but is no Python text; the message says why. This is a verdict, not a usage error."""


@dataclass(frozen=True)
class Submission:
    """`filename` is how reports name the file; `sources` holds its text and what it imports, by module name; `notes` say how
    it was read."""

    filename: str
    sources: Mapping[str, str]
    notes: tuple[str, ...] = ()


def read(problem: Problem, path: Path) -> Submission:
    """Reads a submission. Raises UsageError if there is no such file, Unreadable if it is no Python text."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the file in it that you want graded.")
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes(path.name) + 1)
    except FileNotFoundError:
        raise UsageError(f"There is no file {path}. `grade start` makes one for each problem.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    content, notes = text(problem, path.name, data)
    return Submission(
        path.name, course.with_imports(problem.name, content, course.in_folder(path.parent)), tuple(notes)
    )


def most_bytes(name: str) -> int:
    """How large a file may be. Notebooks hold their outputs, too."""
    return MAX_NOTEBOOK if name.lower().endswith(".ipynb") else MAX_SIZE


def text(problem: Problem, name: str, data: bytes) -> tuple[str, list[str]]:
    """The Python text of a file or notebook, and what is to be said of how it was read. Raises Unreadable."""
    if len(data) > most_bytes(name):
        raise Unreadable(f"{name} is larger than {most_bytes(name) >> 20} MiB: no solution of this course is.")
    if name.lower().endswith(".ipynb"):
        try:
            found, said = notebook.source(data, [entry.name for entry in problem.entries])
        except notebook.BadNotebook as error:
            raise Unreadable(f"{name} {error}.") from None
        return found, [said]
    if b"\0" in data:
        raise Unreadable(f"{name} is a binary file, not Python text (zero byte at offset {data.index(0)}).")
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        raise Unreadable(f"{name} is not UTF-8 text (offset {error.start}); save it as UTF-8.") from None


def reference(problem: Problem) -> Submission:
    """The reference, as if someone had handed it in."""
    return Submission(f"{problem.name}.py", course.reference_sources(problem))


def job(problem: Problem, source: Submission) -> Job:
    """What a worker for a submission is started for; its compiled programs are kept for the same sources."""
    programs = cache.programs([problem.name, *source.sources.values()])
    return Job(problem.name, problem.devices, problem.long_runs, cache=programs)
