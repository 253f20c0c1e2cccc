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
from grader.resident.connection import SUFFIX, WAIT, Connection, GoneError, connect, folder
from grader.resident.messages import GradeRequest, GradeResponse, PlayRequest

if TYPE_CHECKING:
    from grader.isolation.sandbox import ForkServer

VARIABLE = "GRADE_RESIDENT"  # 0 forbids to ask a resident judge and to leave one behind


def connected(wants: str) -> Connection | None:
    """Connects to the resident judge of this course and sends what the client wants. None if there is no judge."""
    if sys.platform != "linux":
        return None
    try:
        home = folder()
        if not any(name.endswith(SUFFIX) for name in os.listdir(home)):
            return None  # the usual case, in which nothing is imported before the caller's own zygote starts
        from grader.resident import version

        fingerprint = version.fingerprint()
    except OSError:
        return None
    connection = connect(home / f"{fingerprint[:16]}{SUFFIX}")
    if connection is None:
        return None
    try:
        connection.send(fingerprint=fingerprint, wants=wants)
    except GoneError:
        connection.sock.close()
        return None
    return connection


def is_with_program() -> bool:
    """Returns whether a program that stays, such as watch mode, has the resident judge of this course.

    A judge that a command has left behind gives way to any program that makes its own.
    """
    connection = connected("nothing")
    if connection is None:
        return False
    with connection:
        return not connection.is_left_behind()


def borrowed() -> "ForkServer | None":
    """Returns the fork server of a resident judge that runs the same course for this user; None if there is none."""
    connection = connected("fork server")
    if connection is None:
        return None
    from grader.isolation.sandbox import SHARED, ForkServer

    with connection:
        connection.sock.settimeout(WAIT)
        try:
            data, files, _, _ = socket.recv_fds(connection.sock, len(SHARED), 1)
        except OSError:
            return None
    return ForkServer(socket.socket(fileno=files[0])) if data == SHARED and files else None


def verdict(request: GradeRequest, say: Callable[[str], None]) -> GradeResponse | None:
    """Requests a verdict from the resident judge; None if it gives none. `say` receives progress."""
    connection = _accepted("verdict")
    if connection is None:
        return None
    with connection:
        try:
            connection.send(**request.encode())
            while "response" not in (message := connection.wait()):
                say(str(message["said"]))
            return GradeResponse.decode(message["response"])
        except (GoneError, KeyError, TypeError, ValueError):
            return None  # it ended, or it cannot grade this


def play(request: PlayRequest) -> Iterator[Progress | str | int]:
    """Plays a file with the resident judge's worker: its exhibits as text, with reports of progress between them.

    The last item is the exit code. There is none if the judge ended early, and nothing at all if it plays nothing.
    """
    connection = _accepted("play")
    if connection is None:
        return
    with connection, suppress(GoneError, TypeError, ValueError):
        connection.send(**request.encode())
        while "code" not in (message := connection.wait()):
            yield str(message["shown"]) if "shown" in message else Progress(**message)
        yield int(message["code"])


def _accepted(wants: str) -> Connection | None:
    """Connects to a judge that accepts a request of this kind now; None if there is none."""
    if os.environ.get(VARIABLE) == "0":
        return None
    connection = connected(wants)
    if connection is None:
        return None
    try:
        connection.receive(WAIT)
    except GoneError:
        connection.sock.close()
        return None
    return connection
