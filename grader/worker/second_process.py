"""A second process of a worker: for probes that ask whether something outlives the process that made it."""

import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.channel import Frame, receive, send
from grader.libc import DEATH_SIGNAL, prctl


class TwinError(Exception):
    """The submission raised in the second process; `fields` describe it as a worker's answer does."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__("raised in another process")
        self.fields = fields


@dataclass(frozen=True)
class Twin:
    """Our end of a process that speaks with us as we speak with the judge."""

    sock: socket.socket

    def probe(self, load: Frame, job: Frame, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """The arrays of probe `name`, run there on the file and the case of this job. Raises TwinError."""
        fields = {**job.fields, "probe": name, "options": options}
        for frame in (load, Frame("probe", fields, job.leaves)):
            send(self.sock, frame)
            answer = receive(self.sock)
            if answer.kind == "raised":
                raise TwinError(answer.fields)
        return {leaf.path: leaf.values for leaf in answer.leaves}


def fork(serve: Callable[[socket.socket], None]) -> Twin | None:
    """A process that runs `serve` on the other end of a socket; None where processes cannot be forked.

    To be called after the confinement, which it inherits, and before the first array: a fork is safe only until then.
    """
    if not hasattr(os, "fork"):
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        theirs.close()
        return Twin(ours)
    ours.close()
    try:
        if sys.platform == "linux":
            prctl(DEATH_SIGNAL, signal.SIGKILL)  # not to outlive the worker
        if os.getppid() == parent:
            serve(theirs)
    finally:
        os._exit(0)
