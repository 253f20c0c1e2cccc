"""The socket of a resident judge: for processes of the same user that run the same course, and for nobody else."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from grader.cli import grading
from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.options import GradeOptions
from grader.judge.verdict import Verdict
from grader.resident import version
from grader.resident.client import borrowed
from grader.resident.server import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no zygote to share")
PROBLEM = catalog.find("04")


@pytest.fixture
def folder(resident) -> Path:
    """The folder that the socket is in."""
    return next(Path(os.environ["XDG_RUNTIME_DIR"]).iterdir())


def lends() -> bool:
    """Whether a plain grading would use the fork server of the resident judge."""
    fork_server = borrowed()
    if fork_server:
        fork_server.close()
    return fork_server is not None


def test_a_plain_grading_uses_the_fork_server(resident):
    """With the same verdict and isolation."""
    fork_server, source = borrowed(), submission.reference(PROBLEM)
    assert fork_server
    report = judge.grade(PROBLEM, source, fork_server)
    fork_server.close()
    assert report.verdict is Verdict.PASS
    assert report.isolation == resident.grade(PROBLEM, source).isolation


def test_a_lender_that_has_just_ended_is_replaced(monkeypatch):
    """It took the request for a worker, and ended before it started one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def end() -> None:
        with theirs:
            _, files, _, _ = socket.recv_fds(theirs, 1 << 16, 3)
        for file in files:
            os.close(file)

    threading.Thread(target=end, daemon=True).start()
    monkeypatch.setattr("grader.resident.client.borrowed", lambda: ForkServer(ours))
    assert grading.report(PROBLEM, catalog.solution_path(PROBLEM), GradeOptions()).verdict is Verdict.PASS


def test_other_code_is_not_lent(folder, monkeypatch):
    assert lends()
    with monkeypatch.context() as patch:
        patch.setattr(version, "fingerprint", lambda: next(folder.glob("*.sock")).stem + "other")
        assert not lends()  # it finds the socket, and is refused
    with monkeypatch.context() as patch:
        patch.setattr(version, "of_problems", lambda: "edited since")
        assert not lends()


def test_the_folder_must_be_the_users_own(folder, monkeypatch, tmp_path):
    folder.chmod(0o755)
    assert not lends()
    folder.chmod(0o700)
    assert lends()
    (tmp_path / folder.name).symlink_to(folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert not lends()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
def test_another_user_gets_nothing(folder):
    """Even one who could open the socket, and who knows the fingerprint."""
    (path,) = folder.glob("*.sock")
    client = (
        "import os, socket, sys\nsock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)\n"
        "os.chdir(sys.argv[1]); os.setgid(65534); os.setuid(65534)\n"
        "sock.connect(sys.argv[2])\n"
        "try: sock.send(sys.argv[3].encode() + b'\\n'); print(*socket.recv_fds(sock, 100, 1)[:2])\n"
        "except ConnectionError: print(b'', [])"
    )
    folder.chmod(0o755)
    path.chmod(0o777)
    command = [sys.executable, "-c", client, str(folder), path.name,
               json.dumps({"fingerprint": version.fingerprint(), "wants": "fork server"})]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    folder.chmod(0o700)
    assert done.stdout == "b'' []\n", done.stderr
    assert lends()


def test_the_socket_of_a_killed_judge_is_ignored(monkeypatch, tmp_path_factory):
    runtime = tmp_path_factory.mktemp("run")  # a socket's path has at most 107 characters
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert not lends()
    folder = runtime / f"gpt-kata-{os.getuid()}"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left_behind:
        left_behind.bind(str(folder / f"{version.fingerprint()[:16]}.sock"))
    assert not lends()


def test_a_judge_that_was_replaced_leaves_the_socket_of_its_successor(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    asked = []
    first, second = (Server(lambda lend, name=name: asked.append(name)) for name in ("first", "second"))
    assert (first.is_reachable, second.is_reachable) == (False, True)
    first.close()
    assert second.is_reachable
    assert borrowed() is None, "it lends nothing here"
    assert asked == ["second"]
    second.close()
    assert not second.is_reachable
