"""The port of the studio: only this machine can reach it, and nobody else can answer there."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from commandline.errors import UsageError

HOST = "127.0.0.1"
_HOST_6 = "::1"  # which `localhost` means to some browsers
_TRIES = 8
_OPEN = ("01", "08")  # states of a connection in which its program can still send: ESTABLISHED, CLOSE_WAIT
_LOOPBACK = ("7F", "00000000000000000000000001000000")  # the endings of this machine's addresses in the kernel's tables


def listen(port: int) -> list[socket.socket]:
    """Returns sockets on this port for both kinds of addresses, or on another port if a program has it or still talks
    on it.

    A program that had the port before may keep connections to the browser, which the browser would use for the studio.
    """
    for number in (port, *[0] * _TRIES):
        with contextlib.ExitStack() as undo, contextlib.suppress(OSError):
            first = undo.enter_context(_bound(socket.AF_INET, HOST, number))
            number = first.getsockname()[1]
            sockets = [first]
            if _has_ip_6():
                sockets.append(undo.enter_context(_bound(socket.AF_INET6, _HOST_6, number)))
            if _is_held(number):
                continue
            for sock in sockets:
                sock.listen()
            undo.pop_all()
            return sockets
    raise UsageError(f"No port of {HOST} is free.")


@contextlib.contextmanager
def unix(path: Path) -> Iterator[socket.socket]:
    """Yields a Unix socket with this path, for programs of this user only. The path is removed at the end."""
    path.unlink(missing_ok=True)  # left by a process that was killed
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        try:
            path.chmod(0o600)
            sock.listen()
            yield sock
        finally:
            path.unlink(missing_ok=True)


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family)
    try:
        if os.name == "posix":  # elsewhere the option would let two programs share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def _has_ip_6() -> bool:
    try:
        _bound(socket.AF_INET6, _HOST_6, 0).close()
    except OSError:
        return False
    return True


def _is_held(port: int) -> bool:
    """Returns whether a program still holds a connection to the port that somebody opened. Reads it from Linux."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                address, number = local.split(":")
                if int(number, 16) == port and state in _OPEN and address.endswith(_LOOPBACK):
                    return True
    return False
