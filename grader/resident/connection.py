"""The socket of a resident judge: where it is, who may be at its other end, and the messages through it.

A submission cannot get here: its file system does not contain the folder, it is denied sockets, and a process that
cannot gain privileges, as every worker with Landlock or seccomp, is refused.
"""

import json
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Self

WAIT = 0.05  # seconds, in which a judge that works answers
SUFFIX = ".sock"
LEFT_BEHIND = "grader.resident.daemon"  # the module that a judge runs which a command has left behind
_LONGEST = 256 << 20  # bytes of a message
_CREDENTIALS = struct.Struct("3i")  # of the process at the other end: process, user and group


class GoneError(Exception):
    """The other side has ended, is stopped, or has sent something that is no message."""


class Connection:
    """One connection. Each message is one line of JSON, an object. Raises GoneError, in every method, where there is no
    more."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self._received = sock, bytearray()
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.process, self._user, _ = _CREDENTIALS.unpack(credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    def is_own(self) -> bool:
        """Returns whether the process at the other end belongs to this user, and is not a confined one."""
        try:
            status = Path(f"/proc/{self.process}/status").read_text()
        except OSError:
            return False
        # A whole line: the first one holds a name that the process has chosen.
        return self._user == os.getuid() and "NoNewPrivs:\t0" in status.splitlines()

    def is_left_behind(self) -> bool:
        """Returns whether the process at the other end is a judge that a command has left behind, and no program that
        has one."""
        try:
            return LEFT_BEHIND.encode() in Path(f"/proc/{self.process}/cmdline").read_bytes()
        except OSError:
            return False

    def send(self, patience: float = WAIT, **fields: Any) -> None:
        """Sends a message. Raises GoneError if the other side has no room for it within `patience` seconds."""
        self.sock.settimeout(patience)
        try:
            self.sock.sendall(json.dumps(fields).encode() + b"\n")
        except OSError as error:
            raise GoneError(str(error)) from None

    def receive(self, patience: float = WAIT) -> dict[str, Any]:
        """Returns the next message. Raises GoneError if it does not come within `patience` seconds."""
        deadline = monotonic() + patience
        while b"\n" not in self._received:
            if not self._read(max(deadline - monotonic(), 0.001)):
                raise GoneError("no answer in time")
        return self._message()

    def wait(self) -> dict[str, Any]:
        """Waits for the next message as long as the process at the other end runs and is not stopped. Raises GoneError
        otherwise."""
        while b"\n" not in self._received:
            if not self._read(WAIT) and not runs(self.process):
                raise GoneError("the process has been stopped")
        return self._message()

    def _read(self, seconds: float) -> bool:
        """Reads what has arrived. Returns False if nothing comes within `seconds`. Raises GoneError if the connection
        is closed."""
        self.sock.settimeout(seconds)
        try:
            part = self.sock.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError as error:
            raise GoneError(str(error)) from None
        self._received += part
        if not part or len(self._received) > _LONGEST:
            raise GoneError("the connection was closed")
        return True

    def _message(self) -> dict[str, Any]:
        text, _, rest = self._received.partition(b"\n")
        self._received = rest
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise GoneError("not a message") from None
        if not isinstance(message, dict):
            raise GoneError("not a message")
        return message


def runs(process: int) -> bool:
    """Returns whether a process is there, and neither stopped nor dead."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "TtZX"


def folder(*, create: bool = False) -> Path:
    """Returns the folder of the sockets. Raises OSError unless it is a folder, not a link, that only this user can
    enter."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"gpt-kata-{os.getuid()}")
    if create:
        path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError
    return path


def connect(path: Path) -> Connection | None:
    """Returns a connection to the judge that listens at a socket; None if there is none, or if it is not this
    user's."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(WAIT)
    try:
        sock.connect(str(path))
        connection = Connection(sock)
    except OSError:
        sock.close()
        return None
    if connection.is_own():
        return connection
    sock.close()
    return None


def connect_to_all() -> Iterator[tuple[Path, Connection]]:
    """Yields a connection to each judge of this user, of whatever course and version, with the path of its socket."""
    if sys.platform != "linux":
        return
    try:
        paths = sorted(folder().glob(f"*{SUFFIX}"))
    except OSError:
        return
    for path in paths:
        if connection := connect(path):
            with connection:
                yield path, connection
