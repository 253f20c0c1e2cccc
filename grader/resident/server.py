"""Lends the fork server of a resident judge to other processes of the same user, through a socket that only they can open.

A client sends its fingerprint, and gets a connection to the zygote if the resident has the same one. From then on it starts its
own workers. A submission cannot get here: its file system does not contain the folder, it is denied sockets, and a process that
cannot gain privileges, as every worker with Landlock or seccomp, is refused.
"""

import contextlib
import os
import socket
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from grader.isolation.sandbox import SHARED, ForkServer

_SECONDS = 0.5  # for the other side to answer; it may be a stopped process
_LONGEST = 256  # bytes of a message
_CREDENTIALS = struct.Struct("3i")  # of the process at the other end: process, user and group


class Server:
    """Answers clients in a thread until it is closed. Does nothing where there is no zygote to share, or no safe folder.

    `share` calls the function that it is given with the fork server to lend.
    """

    def __init__(self, share: Callable[[Callable[[ForkServer], None]], None]) -> None:
        self._share = share
        self._socket: socket.socket | None = None
        if sys.platform != "linux":
            return
        with contextlib.suppress(OSError):
            from grader.resident import version

            home = _folder(create=True)
            self._fingerprint = version.fingerprint()
            self._path = home / _name(self._fingerprint)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            new = home / f".{os.getpid()}"
            new.unlink(missing_ok=True)
            listening.bind(str(new))
            self._inode = new.lstat().st_ino
            listening.listen()
            new.rename(self._path)  # replaces that of a process that was killed
            self._socket = listening
            threading.Thread(target=self._serve, args=[listening], daemon=True).start()

    def close(self) -> None:
        """Answers no more clients. Those that have a connection to the zygote keep it."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:  # not that of a later resident
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
            with client, contextlib.suppress(OSError):
                client.settimeout(_SECONDS)
                if _is_own(client) and client.recv(_LONGEST) == self._fingerprint.encode():
                    self._share(lambda fork_server, client=client: fork_server.share(client))  # type: ignore[misc]


def borrowed() -> ForkServer | None:
    """The fork server of a resident judge that runs the same course for this user; None if there is none."""
    if sys.platform != "linux":
        return None
    try:
        home = _folder()
        if not any(name.endswith(_SUFFIX) for name in os.listdir(home)):
            return None  # the usual case, in which nothing is imported before the caller's own zygote starts
        from grader.resident import version

        fingerprint = version.fingerprint()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(_SECONDS)
            sock.connect(str(home / _name(fingerprint)))
            if not _is_own(sock):
                return None
            sock.send(fingerprint.encode())
            data, files, _, _ = socket.recv_fds(sock, _LONGEST, 1)
    except OSError:
        return None
    return ForkServer(socket.socket(fileno=files[0])) if data == SHARED and files else None


_SUFFIX = ".sock"


def _name(fingerprint: str) -> str:
    return fingerprint[:16] + _SUFFIX


def _folder(*, create: bool = False) -> Path:
    """The folder of the sockets. Raises OSError unless it is a folder, not a link, that only this user can enter."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"gpt-kata-{os.getuid()}")
    if create:
        path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError
    return path


def _is_own(sock: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user, and is not a confined one. Raises OSError if it has ended."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(data)
    return user == os.getuid() and "NoNewPrivs:\t0" in Path(f"/proc/{process}/status").read_text()
