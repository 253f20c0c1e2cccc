"""A forked copy of the worker, for probes of state that must survive a process."""

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
    """The submission raised an exception in the second process. `fields` describe it, as in a worker's answer to the judge."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__("raised in the second process")
        self.fields = fields


@dataclass(frozen=True)
class SecondProcess:
    """The worker's handle on its second process, which answers the same requests as the worker."""

    sock: socket.socket

    def probe(self, load: Frame, request: Frame, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Runs the probe `name` in the second process, on the file of `load` and the case of `request`. Returns its arrays.

        Raises SecondProcessError.
        """
        fields = {**request.fields, "probe": name, "options": options}
        for frame in (load, Frame("probe", fields, request.leaves)):
            send(self.sock, frame)
            answer = receive(self.sock)
            if answer.kind == "raised":
                raise SecondProcessError(answer.fields)
        return {leaf.path: leaf.values for leaf in answer.leaves}


def fork(serve: Callable[[socket.socket], None]) -> SecondProcess | None:
    """Forks a process that runs `serve` on the other end of a socket. Returns None on a system without fork.

    To be called after the worker is confined, because the fork inherits the confinement, and before the first array exists,
    because after that a fork is not safe.
    """
    if not hasattr(os, "fork"):
        return None
    sock, second_sock = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        second_sock.close()
        return SecondProcess(sock)
    sock.close()
    try:
        if sys.platform == "linux":
            prctl(DEATH_SIGNAL, signal.SIGKILL)  # dies with the worker
        if os.getppid() == parent:
            serve(second_sock)
    finally:
        os._exit(0)
