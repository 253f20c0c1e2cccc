"""The version of the course that is running: whether it has changed on disk, and whether another process runs the same.

Imports little, because a command that asks another process for its verdict imports it.
"""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator

from commandline.folders import cache_folder
from grader.course.course import FILE
from grader.course.selection import selected
from grader.isolation.sandbox import FLAX_MODES, WITHOUT
from grader.paths import ROOT

_CODE = ("commandline", "grader", "harness")
_PROBLEMS = ("problems", "solutions")
# The environment variables that affect a worker that is forked for this process.
_VARIABLES = ("LD_LIBRARY_PATH", "TMPDIR", WITHOUT, *FLAX_MODES)


def of_code() -> str:
    """Returns a hash that changes with the course's own code, and when a package is installed or removed. Reads no
    file."""
    packages = os.stat(sysconfig.get_path("purelib"))
    return _digest(
        [str(packages.st_mtime_ns), *(line for name in _CODE for line in _of_folder(f"{ROOT}{os.sep}{name}"))]
    )


def of_problems() -> str:
    """Returns a hash that changes with any problem or solution of the selected course. Reads no file."""
    lines = list[str]()
    for home in sorted({selected().root, *(listed.home for listed in selected().problems)}):
        lines.append(_line(str(home / FILE), (home / FILE).stat()))
        for name in _PROBLEMS:
            lines += _of_folder(f"{home}{os.sep}{name}")
    return _digest(lines)


def fingerprint() -> str:
    """Returns a hash that two processes share if a worker forked for one of them would behave the same for the other.

    They run the same course with the same code, packages, Python, cache and environment, and see the same files and
    processes.
    """
    views = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "user", "net")]
    place = [str(ROOT), str(selected().root), sys.executable, str(cache_folder("GRADE_CACHE").absolute())]
    return _digest([of_code(), *place, *(f"{name}={os.environ.get(name)}" for name in _VARIABLES), *views])


def _of_folder(folder: str) -> Iterator[str]:
    """Yields a line for each Python and TOML file in a folder and below it, in order. None if there is no folder: a
    learner's bundle has no solutions and may have no harness."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name.endswith((".py", ".toml")):
            yield _line(entry.path, entry.stat())
        elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
            yield from _of_folder(entry.path)


def _line(path: str, status: os.stat_result) -> str:
    return f"{path} {status.st_mtime_ns} {status.st_size}"


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
