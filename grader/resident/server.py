"""Answers other processes of the same user: lends them the fork server of a resident judge, and does their work.

A client sends its fingerprint, and is answered if the judge has the same one. Any client may ask for the state of the
judge. A client that gets a connection to the zygote starts its own workers from then on.
"""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from grader.isolation.sandbox import ForkServer
from grader.resident.connection import SUFFIX, WAIT, Connection, GoneError, folder

_PATIENCE = 0.5  # seconds for a client to say what it wants


def no_work(wants: str, connection: Connection) -> None:
    """Handles requests in a server that only lends its fork server: it does nothing."""


class Server:
    """Serves clients, each in a thread, until it is closed. Does nothing where there is no zygote to share, or no safe
    folder.

    `share` calls its argument with the fork server to lend. `work` handles all other requests; it receives the kind of
    the request and the connection.
    """

    def __init__(
        self, share: Callable[[Callable[[ForkServer], None]], None], work: Callable[[str, Connection], None] = no_work
    ) -> None:
        self._share, self._work = share, work
        self._socket: socket.socket | None = None
        self._path, self._inode = Path(), 0
        if sys.platform != "linux":
            return
        with contextlib.suppress(OSError):
            from grader.resident import version

            home = folder(create=True)
            self._fingerprint = version.fingerprint()
            self._path = home / f"{self._fingerprint[:16]}{SUFFIX}"
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            new = home / f".{os.getpid()}"
            new.unlink(missing_ok=True)
            listening.bind(str(new))
            self._inode = new.lstat().st_ino
            listening.listen()
            new.rename(self._path)  # replaces that of a process that was killed
            self._socket = listening
            threading.Thread(target=self._serve, args=[listening], daemon=True).start()

    @property
    def is_reachable(self) -> bool:
        """Whether clients find this server: there is a socket, and no later judge has replaced it."""
        try:
            return self._path.lstat().st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Accepts no more clients. Those that have a connection to the zygote keep it."""
        if self._socket is None:
            return
        if self.is_reachable:
            with contextlib.suppress(OSError):
                self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._socket = None

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[client], daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, GoneError):
            connection = Connection(client)
            if not connection.is_own():
                return
            wants = connection.receive(_PATIENCE)
            if wants.get("fingerprint") != self._fingerprint and wants.get("wants") != "state":
                return
            if wants.get("wants") == "fork server":
                client.settimeout(WAIT)
                self._share(lambda fork_server: fork_server.share(client))
            else:
                self._work(str(wants.get("wants")), connection)
