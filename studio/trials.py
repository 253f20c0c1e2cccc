"""The scripts of failing cases: writes them beside the learner's files, and runs one in a process of its own.

As in a terminal, a script runs the learner's code without the grader's isolation.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from commandline import files
from commandline.errors import UsageError
from commandline.text import printable
from grader.course.workspace import Workspace
from grader.judge.verdict import Report
from grader.paths import ROOT
from grader.problem import Problem
from grader.report import script
from studio.harness_process import kill

_LARGEST = 1 << 20  # bytes, of a script that is shown
_SECONDS = 60.0  # that a script may run
_PRINTED = 20_000  # characters that are shown


class Trials:
    """Writes scripts and runs them, one at a time."""

    def __init__(self, space: Workspace) -> None:
        self._space = space
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def write(self, problem: Problem, report: Report) -> tuple[str, str]:
        """Writes the script for a report. Returns its name, and a sentence on it. Raises UsageError if it cannot be
        written."""
        path, kept = script.write_beside(self._space.file(problem), script.Tried.of(report))
        return path.name, f"Your edited copy is now {kept.name}." if kept else ""

    def text(self, problem: Problem) -> str:
        """Returns the script as it is now. Raises UsageError if there is none that can be read."""
        path = self._path(problem)
        try:
            return files.read_regular(path, _LARGEST).decode("utf-8", "replace")
        except (OSError, files.NotRegularFileError) as error:
            raise UsageError(f"{path.name} {files.why_unreadable(error)}.") from None

    def run(self, problem: Problem) -> tuple[str, str]:
        """Runs the script as it is now. Ends one that is running. Returns its output, and how it ended."""
        path = self._path(problem)
        self.stop()
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._lock:
            process = self._process = subprocess.Popen(
                [sys.executable, path.name], cwd=path.parent, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
                errors="replace", start_new_session=True,
            )  # fmt: skip
        timer = threading.Timer(_SECONDS, kill, [process])
        timer.start()
        assert process.stdout is not None  # noqa: S101  it is a pipe
        try:
            printed = _read(process.stdout)
            if len(printed) > _PRINTED:
                kill(process)
            code = process.wait()
            is_late = timer.finished.is_set()
        finally:
            timer.cancel()
            kill(process)
        if len(printed) > _PRINTED:
            end = f"Stopped after {_PRINTED:,} characters."
        elif self._process is not process:
            end = "Stopped."
        elif is_late:
            end = f"Stopped after {_SECONDS:g} s."
        else:
            end = "It ended." if code == 0 else f"It ended with exit code {code}."
        return printed[:_PRINTED], end

    def stop(self) -> None:
        """Ends the script that is running, if there is one."""
        with self._lock:
            process, self._process = self._process, None
        if process:
            kill(process)

    close = stop

    def _path(self, problem: Problem) -> Path:
        return script.path_beside(self._space.file(problem), problem)


def _read(output: IO[str]) -> str:
    """Reads the output of a script, up to a little more than is shown, and removes control characters."""
    with output:
        return "\n".join(printable(line) for line in output.read(_PRINTED + 1).split("\n"))
