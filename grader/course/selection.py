"""The selected course: `--course`, else the environment variable GRADE_COURSE, else the one that the workspace names.

Without any of them, it is the course that the grader comes with. A process passes its choice on in the variable.
"""

import contextlib
import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from commandline.errors import UsageError
from commandline.spelling import nearest
from commandline.trust import is_trusted, trust
from grader.course import course
from grader.course.course import Course
from grader.paths import ROOT

VARIABLE = "GRADE_COURSE"
SHIPPED = "gpt-kata"  # the name of the course that the grader comes with
_GROUP = "gpt_kata.courses"
_TRUSTED = "courses"  # which are trusted by their folders


def selected() -> Course:
    """Returns the course that this process works on. Raises UsageError if there is none, CourseError if it is not
    sound."""
    return _read(os.environ.get(VARIABLE, ""))


@cache
def _read(word: str) -> Course:
    return course.read(find(word) if word else ROOT)


def forget() -> None:
    """Reads the course again when it is next asked for."""
    _read.cache_clear()


def select(word: str | None, named: str) -> None:
    """Selects a course for this process and those that it starts. `named` is the course that the workspace names, or
    empty.

    Raises UsageError if there is no such course. A folder that only the workspace names must have been selected before:
    a course is code that runs on this machine, and a workspace may come from somebody else.
    """
    if word is not None:
        folder = find(word)
        trust(_TRUSTED, os.fsencode(folder))
    elif os.environ.get(VARIABLE):
        folder = find(os.environ[VARIABLE])
    elif named:
        folder = find(named)
        if folder not in installed().values() and not is_trusted(_TRUSTED, os.fsencode(folder)):
            raise UsageError(
                f"This workspace is for the course in {folder}, which you have not used before. A course is code that "
                f"runs on your machine; if you trust it, run `grade --course {folder} list`."
            )
    else:
        return
    os.environ[VARIABLE] = str(folder)


def find(word: str) -> Path:
    """Returns the folder of a course, by its path or by the name of an installed one. Raises UsageError."""
    known = {} if os.path.isabs(word) else installed()
    if word in known:
        return known[word]
    if (Path(word) / course.FILE).is_file():
        return Path(word).resolve()
    close = nearest(word, known)
    raise UsageError(
        f"There is no course {word!r}: it is neither a folder with a {course.FILE} nor an installed course."
        + (f" Did you mean {close[0]!r}?" if close else " `grade course list` shows the installed ones.")
    )


def installed() -> Mapping[str, Path]:
    """Returns the folders of the installed courses, by name: those of packages in the entry point group
    `gpt_kata.courses`.

    The value of an entry point is the package that is the course's folder. It is not imported.
    """
    from importlib.metadata import entry_points  # takes long to import

    found = {SHIPPED: ROOT}
    for entry in entry_points(group=_GROUP):
        spec = None
        with contextlib.suppress(ImportError, ValueError):  # a package that is damaged, or no longer there
            spec = find_spec(entry.value)
        if spec and spec.submodule_search_locations:
            found.setdefault(entry.name, Path(next(iter(spec.submodule_search_locations))).resolve())
    return found


def name_of(folder: Path) -> str:
    """Returns the name that selects the course in a folder: its own if it is installed, else the path."""
    return next((name for name, root in installed().items() if root == folder), str(folder))


def secret_folders() -> tuple[Path, ...]:
    """Returns the folders that no submission may read: those of the selected course and of all installed ones."""
    return _secret_folders(selected().root)


@cache
def _secret_folders(root: Path) -> tuple[Path, ...]:
    return course.secret_folders((root, *installed().values()))
