"""Which version of the course is running: whether it has changed on disk, and whether another process runs the same."""

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from grader.course.course import FILE
from grader.course.selection import selected
from grader.judge import cache
from grader.paths import ROOT

_CODE = ("commandline", "grader", "harness")


def of_code() -> str:
    """A hash that changes with the course's own code, and when a package is installed or removed. Reads no file."""
    packages = Path(sysconfig.get_path("purelib"))
    return _of_files([packages, *(path for name in _CODE for path in sorted((ROOT / name).rglob("*.py")))])


def of_problems() -> str:
    """A hash that changes with any problem or solution of the selected course. Reads no file."""
    files = list[Path]()
    for home in sorted({selected().root, *(listed.home for listed in selected().problems)}):
        files += [home / FILE, *sorted(home.glob("problems/*/*.py")), *sorted(home.glob("solutions/*.*"))]
    return _of_files(files)


def fingerprint() -> str:
    """A hash that two processes share if a worker forked for one of them would behave the same for the other.

    They run the same course with the same packages, Python and environment, and see the same files and processes.
    """
    views = [os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "user", "net")]
    place = [str(ROOT), str(selected().root), sys.executable, os.environ.get("LD_LIBRARY_PATH", "")]
    return cache.digest([cache.environment(), *place, *views])


def _of_files(paths: Iterable[Path]) -> str:
    parts = []
    for path in paths:
        status = path.stat()
        parts.append(f"{path} {status.st_mtime_ns} {status.st_size if path.is_file() else ''}")
    return cache.digest(parts)
