"""Grades what has been handed in, by `grade batch`, as soon as it arrives: all that is new at once, then what came
meanwhile. Also grades again what teachers ask for, and counts again when the deadlines have changed."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from commandline.errors import CommandError
from commandline.problem_name import ProblemName
from grader.batch import hand_ins, marks
from grader.batch.hand_ins import HandIn
from grader.batch.results import Results
from hosting import decisions
from hosting.class_folder import ClassFolder
from hosting.inbox import Inbox

AGAIN = 60.0  # seconds until the next look, also for deadlines that somebody has edited
SOON = 2.0  # seconds until the next look after one failure, such as the batch of a killed service that still runs
_SUBMISSIONS = ".batch"  # in the folder of the class: what the batch that runs gets
_END = 20.0  # seconds in which a batch ends when it is asked to
_log = logging.getLogger(__name__)


class Grading:
    """Runs one `grade batch` at a time, with `options` of the teacher's beside those that `of` names.

    A batch gets what has no result yet, and what is graded again. Earlier attempts are in its database, where a rerun
    finds them. `then` is called after each batch, and after each look without one.
    """

    def __init__(
        self, of: ClassFolder, inbox: Inbox, options: Sequence[str] = (), then: Callable[[], None] = lambda: None
    ) -> None:
        self._of, self._inbox, self._options, self._then = of, inbox, options, then
        self._woken = asyncio.Event()
        self._counted_by: dict[str, str] = {}  # the rules of the last batch
        self._is_asked = False

    def wake(self, *, to_count: bool = False) -> None:
        """Says that there may be something to grade, or, `to_count`, that a batch has to run in any case."""
        self._is_asked |= to_count
        self._woken.set()

    async def run(self) -> None:
        """Grades until it is cancelled, which ends a batch with what it has graded.

        After a failure the next look comes soon; after each further one in a row, in twice the time.
        """
        soon = SOON
        while True:
            self._woken.clear()
            is_well = False
            try:
                work = await asyncio.to_thread(self._work)
                is_well = not work or await self._batch(work)
            except CommandError as error:
                _log.error("the gradings wait: %s", error)
            except Exception:  # whatever it is, what is handed in later is graded
                _log.exception("the gradings wait")
            self._then()
            pause, soon = (AGAIN, SOON) if is_well else (soon, min(AGAIN, 2 * soon))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause)

    def waiting(self) -> list[HandIn]:
        """Returns the attempts without a result. No two attempts have the same time."""
        with self._of.stored() as stored:
            graded = stored.by_time() if stored else {}
        return [one for one in self._inbox.all() if one.received.isoformat() not in graded]

    def _work(self) -> list[HandIn]:
        """Returns the attempts for the next batch: what has no result, or is graded again. If marks only have to be
        counted again, the newest attempt, as there is no batch without one."""
        decisions.record_regrades(self._of)
        every, work = self._inbox.all(), self.waiting()
        with self._of.stored() as stored:
            if stored:
                again = stored.to_regrade()
                work += [one for one in every if one.received.isoformat() in again]
                if not work and every and self._must_count(stored):
                    work = [max(every, key=lambda one: one.received)]
        return work

    def _must_count(self, stored: Results) -> bool:
        rules = self._rules()
        return self._is_asked or rules not in (self._counted_by, {name: stored.fact(name) for name in rules})

    def _rules(self) -> dict[str, str]:
        rules = self._of.rules()
        return marks.of_rules(rules if self._of.deadlines.is_file() else None, best=rules.policy.best)

    async def _batch(self, waiting: Sequence[HandIn]) -> bool:
        """Runs a batch. Returns whether it ended well."""
        submissions, rules = self._of.folder / _SUBMISSIONS, self._rules()
        self._is_asked = False
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
        else:
            self._counted_by = rules
        return not code

    def _command(self, submissions: Path, waiting: Sequence[HandIn]) -> list[str]:
        of = self._of
        with of.stored() as stored:
            problems = {*(stored.problems() if stored else ()), *(one.problem for one in waiting)}
        files = (("deadlines", of.deadlines), ("roster", of.roster))
        return [
            *(sys.executable, "-P", "-m", "grader", "batch", str(submissions), "--out", str(of.results)),
            *("--name", of.folder.name, "--problems", ",".join(sorted({ProblemName(name).label for name in problems}))),
            *("--keep", "best" if of.rules().policy.best else "last"),
            *(
                word
                for name, path in files
                for word in ((f"--{name}", str(path)) if path.is_file() else ("--without", name))
            ),
            *("--format", "canvas"),
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
