"""Whether the process at the other end of a socket is a confined one."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from grader.resident.connection import Connection

pytestmark = [pytest.mark.fast, pytest.mark.skipif(sys.platform != "linux", reason="other systems have no prctl")]

# Connects, after it has given up new privileges (38) and taken a name (15), if it is told to.
CLIENT = """
import ctypes, socket, sys
libc = ctypes.CDLL(None)
if sys.argv[2] == "confined":
    assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(15, sys.argv[3].encode(), 0, 0, 0) == 0
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.recv(1)
"""


@pytest.mark.parametrize(
    ("kind", "name", "own"),
    [("free", "python", True), ("confined", "python", False), ("confined", "NoNewPrivs:\t0", False)],
)
def test_a_confined_process_is_refused_whatever_its_name(kind: str, name: str, own: bool, tmp_path: Path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        with subprocess.Popen([sys.executable, "-c", CLIENT, path, kind, name]) as client:
            sock, _ = server.accept()
            with Connection(sock) as line:
                assert line.process == client.pid
                assert line.is_own() is own
