"""A second process of a worker: for probes that ask whether something outlives the process that made it."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.isolation.libc import DEATH_SIGNAL, prctl
from grader.wire.channel import Frame, receive, send


class SecondProcessError(Exception):
    """The submission raised in the second process; `fields` describe it as a worker's answer does."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__("raised in another process")
        self.fields = fields


@dataclass(frozen=True)
class SecondProcess:
    """Our end of a process that speaks with us as we speak with the judge."""

    sock: socket.socket

    def probe(self, load: Frame, job: Frame, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """The arrays of probe `name`, run there on the file and the case of this job. Raises SecondProcessError."""
        fields = {**job.fields, "probe": name, "options": options}
        for frame in (load, Frame("probe", fields, job.leaves)):
            send(self.sock, frame)
            answer = receive(self.sock)
            if answer.kind == "raised":
                raise SecondProcessError(answer.fields)
        return {leaf.path: leaf.values for leaf in answer.leaves}


def fork(serve: Callable[[socket.socket], None]) -> SecondProcess | None:
    """A process that runs `serve` on the other end of a socket; None where processes cannot be forked.

    To be called after the confinement, which it inherits, and before the first array: a fork is safe only until then.
    """
    if not hasattr(os, "fork"):
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        theirs.close()
        return SecondProcess(ours)
    ours.close()
    try:
        if sys.platform == "linux":
            prctl(DEATH_SIGNAL, signal.SIGKILL)  # not to outlive the worker
        if os.getppid() == parent:
            serve(theirs)
    finally:
        os._exit(0)
