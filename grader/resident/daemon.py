"""The resident judge that a command has left behind: it waits for other commands, and ends when it is of no use."""

import contextlib
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator

import psutil

from commandline.errors import CommandError
from grader.course import catalog
from grader.resident import connection, version
from grader.resident.resident import Resident
from grader.resident.spawn import IDLE_SECONDS

LEAST_MEMORY = 512 << 20  # bytes that other programs must have left
_LOOK_SECONDS = 5.0


def main() -> None:
    """Runs until there is a reason to end. Arguments: the root of the course's code, a session, a problem."""
    session, problem = int(sys.argv[2]), sys.argv[3]
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with _alone() as alone:
        if not alone or psutil.virtual_memory().available < 2 * LEAST_MEMORY:
            return
        code = version.of_code()
        with contextlib.suppress(psutil.Error, CommandError, OSError):
            leader = psutil.Process(session) if session else None
            with Resident() as resident:
                resident.prepare(catalog.load(problem))
                while not ended.wait(_LOOK_SECONDS) and not reason_to_end(resident, code, leader):
                    pass


def reason_to_end(resident: Resident, code: str, leader: psutil.Process | None) -> str:
    """Returns the reason why a resident judge should end now; empty if it should not. `code` is the version that it
    runs.

    `leader` is the first process of the session that it belongs to: the shell of a terminal.
    """
    if resident.is_grading:
        return ""
    if resident.idle_seconds > IDLE_SECONDS:
        return "nobody needs it"
    if not resident.is_reachable:
        return "nobody finds it"
    if leader and not _lives(leader):
        return "its terminal was closed"
    if psutil.virtual_memory().available < LEAST_MEMORY:
        return "memory is low"
    try:
        return "" if version.of_code() == code else "its code has changed"
    except OSError:
        return "its code is gone"


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


@contextlib.contextmanager
def _alone() -> Iterator[bool]:
    """Yields whether this is the only such process for a course. Two commands may leave one behind at the same time."""
    try:
        path = connection.folder(create=True) / f"{version.fingerprint()[:16]}.lock"
        file = path.open("w")
    except OSError:  # where nobody would find it either
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.fstat(file.fileno()).st_ino == path.stat().st_ino  # an ended one removes its file
        except OSError:
            is_current = False
        if not is_current:
            yield False
            return
        yield True
        path.unlink(missing_ok=True)
