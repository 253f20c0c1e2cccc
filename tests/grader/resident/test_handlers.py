"""What a resident judge does for other processes: the verdicts and plays that they would have made themselves."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from commandline import invocation
from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from grader.play.play_session import Performance
from grader.report.exhibits_terminal import render
from grader.resident import client, connection, version
from grader.resident.messages import Display, GradeRequest, GradeResponse, PlayRequest
from tests.conftest import boot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no zygote to share")
PROBLEM = catalog.find("04")
RIGHT = catalog.reference_sources(PROBLEM)[PROBLEM.name]
WRONG = Submission(f"{PROBLEM.name}.py", {PROBLEM.name: RIGHT.replace("axis=-1", "axis=0")})
ENDLESS = Submission(f"{PROBLEM.name}.py", {PROBLEM.name: "while True:\n    pass\n"})


def asked(file: Submission, timeout: float | None = None) -> GradeRequest:
    display = Display(("terminal", "arrays", "json"), 72)
    return GradeRequest(str(PROBLEM.name), file, GradeOptions(timeout=timeout), display)


def quiet(_: str) -> None:
    pass


def test_the_answer_is_that_of_a_grading_here(resident, fork_server: ForkServer):
    words = {"grade": ["uv run grade", "--workspace", "mine"], "harness": ["harness"]}
    request = replace(asked(WRONG), words=words)
    told = client.verdict(request, quiet)
    with invocation.as_typed_in(words):
        own = GradeResponse.of(judge.grade(PROBLEM, WRONG, fork_server), request.display)
    assert told is not None
    assert (told.verdict, told.score, told.mistake) == (own.verdict, own.score, own.mistake)
    assert told.verdict == "FAIL"
    assert told.texts["terminal"] == own.texts["terminal"]
    assert "`uv run grade --workspace mine hint 04`" in told.texts["terminal"].replace("\n", " ")
    assert told.texts["arrays"] == own.texts["arrays"] != ""
    public, expected = (json.loads(each.texts["json"]) for each in (told, own))
    assert {**public, "seconds": 0} == {**expected, "seconds": 0}


def test_the_exhibits_are_those_of_a_play_here(resident):
    problem = catalog.find("01")  # whose play is quick
    source = submission.reference(problem)
    *told, code = client.play(PlayRequest(str(problem.name), source, None, 60, seen=1, compare=False))
    own = [render(exhibit, 60) for exhibit in Performance(problem, source, resident, compare=False)]
    assert (told, code) == (own[1:], 0)
    assert told


@pytest.mark.parametrize(
    "command",
    [
        ["-X", "importtime", "-c", boot(), "problem", "04"],
        ["-m", "pytest", "-q", "-p", "no:xdist", "--workspace", "attempts"],
    ],
)
def test_a_command_gets_its_verdict_there(resident, tmp_path, command: list[str]):
    """`grade problem` imports no NumPy then: all that it would need it for happens elsewhere."""
    attempt = tmp_path / "attempts" / f"{PROBLEM.name}.py"
    attempt.parent.mkdir()
    attempt.write_text(RIGHT)
    before = resident.state()["gradings"]
    while resident.state()["gradings"] == before:  # a busy machine may not answer in time
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert ("PASS, 5 of 5 points" if "problem" in command else "4 passed") in done.stdout
    assert "problem" not in command or "numpy" not in done.stderr


def test_a_judge_that_grades_gives_no_other_verdict(resident):
    """A command does not wait until another one has its verdict."""
    with resident._grading:
        assert client.verdict(asked(WRONG), quiet) is None


def test_a_client_that_hangs_up_ends_its_grading(resident):
    connected = client._accepted("verdict")
    assert connected is not None
    with connected:
        connected.send(5, **asked(ENDLESS, timeout=120).encode())
        wait_until(lambda: resident._running is not None)
    began = time.monotonic()
    wait_until(lambda: not resident.is_grading)
    assert time.monotonic() - began < 60


def test_what_it_cannot_grade_is_left_to_the_client(resident):
    assert client.verdict(replace(asked(WRONG), problem="p99_unknown"), quiet) is None
    assert client.verdict(replace(asked(WRONG), words={}), quiet) is None
    assert client.verdict(asked(WRONG), quiet) is not None, "it still works"


def test_it_can_be_forbidden(resident, monkeypatch):
    monkeypatch.setenv(client.VARIABLE, "0")
    assert client.verdict(asked(WRONG), quiet) is None


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# A process in the place of a resident judge, which gets as far as its second argument says.
_IMPOSTOR = """
import json, os, signal, socket, sys, time
listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listening.bind(sys.argv[1])
listening.listen()
print("ready", flush=True)
if sys.argv[2] == "stops before it answers": os.kill(os.getpid(), signal.SIGSTOP)
client, _ = listening.accept()
lines = client.makefile("rw")
lines.readline()
if sys.argv[2] == "answers nothing": time.sleep(60)
print(json.dumps({"accepted": True}), file=lines, flush=True)
lines.readline()
print(json.dumps({"said": "grading"}), file=lines, flush=True)
if sys.argv[2] == "stops while it grades": os.kill(os.getpid(), signal.SIGSTOP)
if sys.argv[2] == "is killed while it grades": os.kill(os.getpid(), signal.SIGKILL)
print("gibberish", file=lines, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("stops before it answers", []),
        ("answers nothing", []),
        ("stops while it grades", ["grading"]),
        ("is killed while it grades", ["grading"]),
        ("speaks gibberish", ["grading"]),
    ],
)
def test_a_judge_that_does_not_work_is_not_waited_for(monkeypatch, tmp_path_factory, action: str, said: list[str]):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("i")))
    monkeypatch.setenv(client.VARIABLE, "")
    monkeypatch.setattr(client, "WAIT", 10.0 if said else 0.05)  # the machine of the tests may be busy
    path, heard = connection.folder(create=True) / f"{version.fingerprint()[:16]}.sock", list[str]()
    with subprocess.Popen([sys.executable, "-c", _IMPOSTOR, str(path), action], stdout=subprocess.PIPE) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == b"ready\n"
        if action == "stops before it answers":
            wait_until(lambda: not connection.runs(impostor.pid))
        began = time.monotonic()
        assert client.verdict(asked(WRONG), heard.append) is None
        assert time.monotonic() - began < 10
        impostor.kill()
    assert heard == said
