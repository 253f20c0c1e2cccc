"""Asks the resident judge of this user, if one runs the same course. None that is stopped or busy is waited for.

Imports nothing that takes time: a command that gets its verdict from there needs little else.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from grader.exhibits import Progress
from grader.resident import line as line_
from grader.resident.line import WAIT, GoneError, Line
from grader.resident.question import Answer, PlayQuestion, Question

if TYPE_CHECKING:
    from grader.isolation.sandbox import ForkServer

VARIABLE = "GRADE_RESIDENT"  # 0 forbids to ask a resident judge and to leave one behind


def connected(wants: str) -> Line | None:
    """A connection to the resident judge of this course, told what is wanted. None if there is no judge."""
    if sys.platform != "linux":
        return None
    try:
        home = line_.folder()
        if not any(name.endswith(line_.SUFFIX) for name in os.listdir(home)):
            return None  # the usual case, in which nothing is imported before the caller's own zygote starts
        from grader.resident import version

        fingerprint = version.fingerprint()
    except OSError:
        return None
    line = line_.called(home / f"{fingerprint[:16]}{line_.SUFFIX}")
    if line is None:
        return None
    try:
        line.say(fingerprint=fingerprint, wants=wants)
    except GoneError:
        line.sock.close()
        return None
    return line


def is_with_program() -> bool:
    """Whether a program that stays, such as watch mode, has the resident judge of this course.

    One that was left behind gives way to any program that makes its own.
    """
    line = connected("nothing")
    if line is None:
        return False
    with line:
        return not line.is_left_behind()


def borrowed() -> "ForkServer | None":
    """The fork server of a resident judge that runs the same course for this user; None if there is none."""
    line = connected("fork server")
    if line is None:
        return None
    from grader.isolation.sandbox import SHARED, ForkServer

    with line:
        line.sock.settimeout(WAIT)
        try:
            data, files, _, _ = socket.recv_fds(line.sock, len(SHARED), 1)
        except OSError:
            return None
    return ForkServer(socket.socket(fileno=files[0])) if data == SHARED and files else None


def verdict(question: Question, say: Callable[[str], None]) -> Answer | None:
    """The resident judge's verdict; None if it gives none. `say` receives progress."""
    line = _accepted("verdict")
    if line is None:
        return None
    with line:
        try:
            line.say(**question.encode())
            while "answer" not in (message := line.wait()):
                say(str(message["said"]))
            return Answer.decode(message["answer"])
        except (GoneError, KeyError, TypeError, ValueError):
            return None  # it ended, or it cannot grade this


def play(question: PlayQuestion) -> Iterator[Progress | str | int]:
    """Plays a file with the resident judge's worker: its exhibits as text, with reports of progress between them.

    The last item is the exit code. There is none if the judge ended early, and nothing at all if it plays nothing.
    """
    line = _accepted("play")
    if line is None:
        return
    with line, suppress(GoneError, TypeError, ValueError):
        line.say(**question.encode())
        while "code" not in (message := line.wait()):
            yield str(message["shown"]) if "shown" in message else Progress(**message)
        yield int(message["code"])


def _accepted(wants: str) -> Line | None:
    """A connection to a judge that has said that it works on this now."""
    if os.environ.get(VARIABLE) == "0":
        return None
    line = connected(wants)
    if line is None:
        return None
    try:
        line.hear(WAIT)
    except GoneError:
        line.sock.close()
        return None
    return line
