"""The resident judge that a command leaves behind: where it is welcome, what it does, and when it ends."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from grader.cli.resident import states
from grader.course import catalog
from grader.resident import daemon, spawn, version
from grader.resident.resident import Resident
from tests.conftest import Grade

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no zygote to share")
PROBLEM = catalog.find("04")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("welcome", "terminal", "variables"),
    [
        (True, True, {}),
        (False, False, {}),
        (True, False, {"GRADE_RESIDENT": "1"}),
        (False, True, {"GRADE_RESIDENT": "0"}),
        (False, True, {"CI": "true"}),
        (False, True, {"GRADE_RESIDENT": "1", "CI": "true"}),
    ],
)
def test_where_it_is_welcome(monkeypatch, tmp_path: Path, welcome: bool, terminal: bool, variables: dict[str, str]):
    for name in ("CI", "SUDO_UID", "GRADE_RESIDENT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)  # as before `| less`
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(os, "getsid", lambda process: 1)
    assert spawn.is_welcome(tmp_path) is welcome
    assert not spawn.is_welcome(tmp_path / "missing")


@pytest.mark.fast
def test_root_leaves_none_behind_for_somebody_else(monkeypatch, tmp_path: Path):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("GRADE_RESIDENT", "1")
    assert spawn.is_welcome(tmp_path)
    user = os.getuid()
    for name in ("geteuid", "getuid"):
        monkeypatch.setattr(os, name, lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1000")
    assert not spawn.is_welcome(tmp_path)
    monkeypatch.delenv("SUDO_UID")
    for name in ("geteuid", "getuid"):
        monkeypatch.setattr(os, name, lambda: user + 1)
    assert not spawn.is_welcome(tmp_path), "the workspace is another user's"


def test_what_is_said_of_it(resident: Resident):
    assert "another program of the course runs it" in " ".join(states())


def test_when_it_ends(resident: Resident, monkeypatch):
    code, shell = version.of_code(), psutil.Process()
    assert daemon.reason_to_end(resident, code, shell) == ""
    assert daemon.reason_to_end(resident, "other", shell) == "its code has changed"
    with monkeypatch.context() as patch:
        patch.setattr(daemon, "IDLE_SECONDS", -1.0)
        assert daemon.reason_to_end(resident, code, shell) == "nobody needs it"
        with resident._grading:
            assert daemon.reason_to_end(resident, code, shell) == ""
    with monkeypatch.context() as patch:
        patch.setattr(daemon, "LEAST_MEMORY", 1 << 60)
        assert daemon.reason_to_end(resident, code, shell) == "memory is low"
    with psutil.Popen([sys.executable, "-c", ""]) as ended:
        other = psutil.Process(ended.pid)
    assert daemon.reason_to_end(resident, code, other) == "its terminal was closed"
    with Resident():  # as watch mode has one
        assert daemon.reason_to_end(resident, code, shell) == "nobody finds it"


def test_a_grading_leaves_it_behind_for_the_next_one(grade: Grade, tmp_path: Path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("b")))
    monkeypatch.setenv("CI", "")
    here = {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"], "GRADE_RESIDENT": "1"}
    attempt = tmp_path / "attempts" / f"{PROBLEM.name}.py"
    attempt.parent.mkdir()
    attempt.write_text(catalog.solution_text(PROBLEM))
    first = grade("problem", "04", **here)
    assert first.code == 0, first.err
    wait_for("0 gradings since")
    for _ in range(20):  # a busy machine may not answer in time
        second = grade("problem", "04", **here)
        assert (second.code, second.out) == (0, first.out)
        if "0 gradings" not in " ".join(states()):
            break
    said = wait_for(" since ")
    assert "0 gradings" not in said
    assert "if nobody needs it" in said

    judge = psutil.Process(int(said.split()[1]))
    os.kill(judge.pid, signal.SIGSTOP)
    assert "does not answer" in " ".join(states())
    assert f"Stopped process {judge.pid}." in grade("resident", "stop", **here).out
    deadline = time.monotonic() + 30  # a process that computes takes a moment to end
    while judge.is_running() and judge.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not list(states())


def test_reading_a_page_makes_the_problem_ready(grade: Grade, tmp_path: Path, tmp_path_factory, monkeypatch):
    """While a page is read, the misconceptions are computed that the first wrong verdict compares with."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("b")))
    monkeypatch.setenv("CI", "")
    cache = tmp_path / "cache"
    here = {
        "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"], "GRADE_RESIDENT": "1", "GRADE_CACHE": str(cache),
    }  # fmt: skip
    (tmp_path / "attempts").mkdir()
    counts = []
    for problem in ("04", "02"):
        assert grade("show", problem, **here).code == 0
        before = len(stored(cache))
        deadline = time.monotonic() + 120
        while len(stored(cache)) < before + 6:
            assert time.monotonic() < deadline, "nothing is computed"
            time.sleep(0.1)
        counts.append(wait_for("0 gradings since").split()[1])
    assert counts[0] == counts[1], "the second page was made ready by the judge of the first one"
    assert "Stopped process" in grade("resident", "stop", **here).out


def stored(cache: Path) -> list[Path]:
    """The outputs in a cache."""
    return [path for path in (cache / "references").rglob("*") if path.suffix != ".lock" and path.is_file()]


def wait_for(text: str) -> str:
    """What is said of the judges, once it contains a text."""
    deadline = time.monotonic() + 120
    while text not in (said := " ".join(states())):
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    return said
