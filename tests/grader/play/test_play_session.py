"""Plays run confined, stream their exhibits, and end in a sentence whatever the submission does."""

import dataclasses
from pathlib import Path

import pytest

from grader.course import catalog, plays
from grader.errors import CourseError
from grader.exhibits import Bars, Progress, Table
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import Submission
from grader.play import play_session
from grader.play.play_session import Performance

NAME = "p02_causal_attention"
PLAY = """
from grader.exhibits import Bar, Bars, Progress, Table

TEXT = "a text"

def play(module, text):
    yield Table(text, ("a",), (("b",),))
    yield Progress(1, 2, 0.5)
    yield Bars("Yours", (Bar("value", module.causal_attention(1, 2, 3)),), "units")
"""


@pytest.fixture
def problem(tmp_path: Path):
    """Problem 02 with a play of its own."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "play.py").write_text(PLAY)
    (folder / "problem.py").write_text((catalog.load(NAME).folder / "problem.py").read_text())
    return dataclasses.replace(catalog.load(NAME), folder=folder)


def performed(problem, fork_server: ForkServer, source: str, text: str | None = None):
    performance = Performance(problem, Submission("mine.py", {NAME: source}), fork_server, text, compare=False)
    return list(performance), performance


def test_exhibits_come_in_turn(problem, fork_server):
    shown, performance = performed(problem, fork_server, "def causal_attention(q, k, v): print('hi'); return q + k + v")
    assert [type(each) for each in shown] == [Table, Progress, Bars]
    assert (shown[0].title, shown[2].bars[0].value) == ("a text", 6.0)
    assert (performance.failure, performance.printed.strip()) == (None, "hi")
    assert performed(problem, fork_server, "causal_attention = max", "typed")[0][0].title == "typed"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def causal_attention(q, k, v): return [][0]", "IndexError: list index out of range (mine.py, line 1)"),
        ("def causal_attention(q, k, v): return 'x'", "The play cannot use what your code returned (ExhibitError:"),
        (
            "def causal_attention(q, k, v): raise NotImplementedError",
            "Nothing to play yet: your file is not implemented",
        ),
        ("def attention(q, k, v): return 1", "`causal_attention` is not defined: you have `attention`; rename it"),
        ("def causal_attention(q, k, v)", "SyntaxError"),
        ("import os\ndef causal_attention(q, k, v): os._exit(0)", "the process exited (code 0)"),
        ("import torch", "module `torch` is not available"),
    ],
)
def test_an_error_ends_a_play_in_a_sentence(problem, fork_server, source, said):
    shown, performance = performed(problem, fork_server, source)
    assert all(not isinstance(each, Bars) for each in shown)
    assert performance.failure
    assert said in performance.told()


def test_the_line_is_the_innermost_of_the_file(problem, fork_server):
    source = "def causal_attention(q, k, v):\n    return helper(q)\n\n\ndef helper(q):\n    raise NotImplementedError\n"
    _, performance = performed(problem, fork_server, source)
    assert performance.told() == "Nothing to play yet: your file is not implemented (mine.py, line 6)."


def test_an_infinite_loop_is_stopped_at_its_line(problem, fork_server, monkeypatch):
    monkeypatch.setattr(play_session, "CPU_SECONDS", 1.0)
    source = "def causal_attention(q, k, v):\n    while True:\n        q += 1"
    shown, performance = performed(problem, fork_server, source)
    assert len(shown) == 2
    assert performance.failure.kind == "timeout"
    assert performance.told().startswith("The play was stopped after 1 s of computing (mine.py, line")


def test_a_submission_cannot_read_the_course_or_send_what_is_no_exhibit(problem, fork_server):
    lines = [
        "import socket, sys",
        "from pathlib import Path",
        "def causal_attention(q, k, v):",
        f"    solution = Path({str(catalog.load(NAME).home / 'solutions' / (NAME + '.py'))!r})",
        "    try: print(solution.read_text(), flush=True)",
        "    except OSError: print('refused', flush=True)",
        "    sock = socket.socket(fileno=3)",
        "    from grader.wire.channel import Frame, send",
        "    send(sock, Frame('exhibit', {'kind': 'Story', 'title': 'forged'}))",
    ]
    shown, performance = performed(problem, fork_server, "\n".join(lines))
    assert len(shown) == 2
    assert performance.printed.startswith("refused")
    assert "it sent something that is no exhibit" in performance.told()


def test_escape_sequences_of_a_submission_do_not_reach_the_terminal(problem, fork_server):
    (problem.folder / "play.py").write_text(
        PLAY.replace('Table(text, ("a",)', 'Table(module.causal_attention(1, 2, 3), ("a",)')
    )
    shown, _ = performed(problem, fork_server, "def causal_attention(q, k, v): return '\\x1b[2Jhello'")
    assert shown[0].title == "\\x1b[2Jhello"


def test_a_play_that_cannot_be_imported_is_the_courses_fault(problem, fork_server):
    (problem.folder / "play.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(CourseError, match="cannot be imported: ModuleNotFoundError"):
        performed(problem, fork_server, "causal_attention = max")


def test_constants_of_a_play_are_read_without_running_it(problem):
    assert plays.find(problem) == plays.Play(problem.folder / "play.py", False, "a text")
    (problem.folder / "play.py").write_text("BEST_RUN = 1\n")
    with pytest.raises(CourseError, match="BEST_RUN must be"):
        plays.find(problem)
    (problem.folder / "play.py").write_text("TRAINS = 1\n")
    with pytest.raises(CourseError, match="TRAINS must be"):
        plays.find(problem)
    (problem.folder / "play.py").unlink()
    assert plays.find(problem) is None
