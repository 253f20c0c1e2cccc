"""Grades what has been handed in, by `grade batch`, as soon as it arrives: all that is new at once, then what came
meanwhile."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from commandline.errors import CommandError
from commandline.problem_name import ProblemName
from grader.batch import hand_ins
from grader.batch.hand_ins import HandIn
from hosting.class_folder import ClassFolder
from hosting.inbox import Inbox

AGAIN = 60.0  # seconds until what could not be graded is tried again
_SUBMISSIONS = ".batch"  # in the folder of the class: what the batch that runs gets
_END = 20.0  # seconds in which a batch ends when it is asked to
_log = logging.getLogger(__name__)


class Grading:
    """Runs one `grade batch` at a time, with `options` of the teacher's beside those that `of` names.

    A batch gets what has no result yet. Earlier attempts are in its database, where a rerun finds them.
    """

    def __init__(self, of: ClassFolder, inbox: Inbox, options: Sequence[str] = ()) -> None:
        self._of, self._inbox, self._options = of, inbox, options
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Says that something was handed in."""
        self._woken.set()

    async def run(self) -> None:
        """Grades until it is cancelled, which ends a batch with what it has graded."""
        while True:
            self._woken.clear()
            failed = False
            try:
                waiting = await asyncio.to_thread(self.waiting)
                if waiting:
                    await self._batch(waiting)
                    failed = bool(await asyncio.to_thread(self.waiting)) and not self._woken.is_set()
            except CommandError as error:
                _log.error("the gradings wait: %s", error)
                failed = True
            except Exception:  # whatever it is, what is handed in later is graded
                _log.exception("the gradings wait")
                failed = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), AGAIN if failed else None)

    def waiting(self) -> list[HandIn]:
        """Returns the attempts without a result. No two attempts have the same time."""
        with self._of.stored() as stored:
            graded = stored.times() if stored else set()
        return [one for one in self._inbox.all() if one.received.isoformat() not in graded]

    async def _batch(self, waiting: Sequence[HandIn]) -> None:
        submissions = self._of.folder / _SUBMISSIONS
        shutil.rmtree(submissions, ignore_errors=True)  # of a service that was killed
        try:
            _copy(self._inbox.folder, submissions, waiting)
            with self._of.log.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *self._command(submissions, waiting),
                    stdout=log,
                    stderr=log,
                    cwd=self._of.folder,
                    env=_environment(),
                )
                try:
                    code = await process.wait()
                finally:
                    await _ended(process)
        finally:
            shutil.rmtree(submissions, ignore_errors=True)
        if code:
            _log.error("`grade batch` ended with exit code %d; %s says why", code, self._of.log)

    def _command(self, submissions: Path, waiting: Sequence[HandIn]) -> list[str]:
        of = self._of
        with of.stored() as stored:
            problems = {*(stored.problems() if stored else ()), *(one.problem for one in waiting)}
        files = (("--deadlines", of.deadlines), ("--roster", of.roster))
        return [
            *(sys.executable, "-P", "-m", "grader", "batch", str(submissions), "--out", str(of.results)),
            *("--name", of.folder.name, "--problems", ",".join(sorted({ProblemName(name).label for name in problems}))),
            *("--keep", "best" if of.rules().policy.best else "last"),
            *(word for option, path in files if path.is_file() for word in (option, str(path))),
            *self._options,
        ]


def _copy(inbox: Path, target: Path, waiting: Sequence[HandIn]) -> None:
    """Makes a folder with copies of these attempts for `grade batch`."""
    target.mkdir()
    (target / hand_ins.MARK).touch()
    for one in waiting:
        shutil.copytree(inbox / one.folder, target / one.folder)


def _environment() -> dict[str, str]:
    """Returns the environment of a batch, which needs no token of the hub."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB_")}


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Interrupts a batch that still runs: it keeps what it has graded, and ends its processes."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), _END)
    except TimeoutError:
        process.kill()
        await process.wait()
