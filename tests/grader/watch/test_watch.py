"""`grade watch`, as a learner uses it: on a terminal, on one that cannot redraw, and in a pipe."""

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from grader.course import catalog, page, vscode
from grader.course.workspace import Workspace
from tests.conftest import boot
from tests.grader.watch.terminal import Terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
NAME = "p04_layer_norm"
PROBLEM = catalog.find("04")
RIGHT = catalog.reference_sources(PROBLEM)[PROBLEM.name]
IDEA = catalog.misconceptions(PROBLEM)[0]
LEAVES_THE_SCREEN, COLORS = b"\x1b[?1049l", re.compile(rb"\x1b\[[0-9;]*3[0-7]m")


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_a_session(tmp_path):
    """Edit, verdict, hint, list, page, solution, edit, resize, quit. It stays on the problem that has been passed."""
    folder = tmp_path / "ws"
    file = folder / f"{NAME}.py"
    with Terminal("--workspace", folder, "watch", "04", "--edit-cmd", "touch marked", columns=80) as terminal:
        terminal.wait_for(f"Problem 04, {PROBLEM.title}", "NOT ATTEMPTED, 0 of", "q quit")
        file.write_text(IDEA.variants(RIGHT)[IDEA.name])
        terminal.wait_for("grading...")
        terminal.wait_for("FAIL, ", f"Likely cause: {IDEA.name}")
        assert IDEA.fix
        terminal.resize(80, 80)
        terminal.wait_until(lambda screen: "Press f to read how to mend it" in screen and IDEA.fix[:20] not in screen)
        terminal.wait_for("Press v to see what your code does now.")
        terminal.type("f")
        terminal.wait_until(lambda screen: "Press f to read" not in screen and IDEA.fix[:20] in screen)
        terminal.resize(80, 24)
        terminal.type("h")
        terminal.wait_for(f"Hint 1 of {len(page.hints(PROBLEM))}", "Press h for the next")
        terminal.type("l")
        terminal.wait_for("Search:", "> 04  ")
        terminal.type("lora")
        terminal.wait_until(lambda screen: "> 31" in screen and "  04  " not in screen)
        terminal.type("\x1b")
        terminal.wait_for("FAIL, ")
        terminal.type("s")
        terminal.wait_for("Press s again to give up")
        terminal.type("p")
        terminal.wait_for("Why this matters", "more lines: Page Down")
        terminal.resize(60, 20)
        screen = terminal.wait_until(
            lambda screen: "─" * 60 in screen and "─" * 61 not in screen and "q quit" in screen
        )
        assert "n next h hint p page l list e edit r run s solution q quit" in screen
        terminal.resize(200)
        terminal.wait_for("─" * 200)
        terminal.type("p")
        file.write_text(RIGHT)
        terminal.wait_for("PASS, ", f"Problem 04, {PROBLEM.title}")
        terminal.resize(100, 150)
        first = terminal.wait_for("The size of a token's vector", "Press v to see all of it at work.")
        assert "A story by the trained model" not in first
        terminal.type("v")
        terminal.wait_for("The size of a token's vector", "A story by the trained model")
        terminal.type("s")
        terminal.wait_for("def layer_norm(")
        terminal.type("n")
        terminal.wait_for("Problem 05", "NOT ATTEMPTED")
        below = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.type("q")
        assert terminal.exit_code() == 0
        assert terminal.raw.count(LEAVES_THE_SCREEN) == 1
        assert not psutil.wait_procs(below, timeout=10)[1]
    assert Workspace(folder).progress()[NAME].hints == 1
    assert Workspace(folder).progress()[NAME].fixes == (IDEA.name,)


@pytest.mark.parametrize(("end", "code"), [("key", 130), (signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_the_terminal_is_restored_however_it_ends(end, code, tmp_path):
    """Also while a file hangs. NO_COLOR is respected."""
    (tmp_path / f"{NAME}.py").write_text("while True:\n    pass\n")
    with Terminal("--workspace", tmp_path, "watch", "04", columns=80, NO_COLOR="1") as terminal:
        terminal.wait_for("grading...")
        terminal.type("\x03") if end == "key" else terminal.process.send_signal(end)
        assert terminal.exit_code() == code
        assert terminal.raw.count(LEAVES_THE_SCREEN) == 1
        assert not COLORS.search(terminal.raw)


def in_turn(lines: list[str]) -> list[str]:
    """What VS Code's task reads in lines of output: where gradings begin and end, and the severities of what was
    found."""
    matcher = vscode.contents()["tasks.json"][0]["tasks"][0]["problemMatcher"]
    read = []
    for line in (text.rstrip() for text in lines):
        read += [name for name in ("beginsPattern", "endsPattern") if re.search(matcher["background"][name], line)]
        if found := re.search(matcher["pattern"]["regexp"], line):
            read.append(found[matcher["pattern"]["severity"]])
    return read


def test_lines_for_an_editors_task(tmp_path):
    """On a terminal, which a task has, and which could be redrawn."""
    (tmp_path / f"{NAME}.py").write_text("def layer_norm(:\n")
    with Terminal("--workspace", tmp_path, "watch", "04", "--lines", columns=80) as terminal:
        terminal.wait_for(f"waiting for the next save of {NAME}.py")
        terminal.type("q\n")
        assert terminal.exit_code() == 0
        lines = re.sub(rb"\x1b\[[0-9;]*m", b"", terminal.raw).decode().splitlines()
        assert LEAVES_THE_SCREEN not in terminal.raw
    assert lines.index("Type a letter and Enter:") + 1 == lines.index(
        "n next  h hint  p page  l list  e edit  r run  s solution  q quit"
    )
    assert in_turn(lines) == ["beginsPattern", "error", "endsPattern"]
    assert [line for line in lines if line.startswith(f"{tmp_path / NAME}.py:1:1: error: ")]


def test_lines_in_a_pipe(tmp_path):
    """Each line of input is a key. Nothing is redrawn. `--poll` sees a save, too."""
    command = [sys.executable, "-c", boot(), "--workspace", str(tmp_path), "watch", "04", "--poll"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TERM": "dumb"}
    ) as process:
        assert process.stdin
        assert process.stdout
        lines = []

        def read_to(text: str) -> None:
            for line in process.stdout:
                lines.append(line)
                if text in line:
                    return
            raise AssertionError(f"no {text!r} in {''.join(lines)}")

        read_to("NOT ATTEMPTED, 0 of")
        file = tmp_path / f"{NAME}.py"
        created = file.stat().st_mtime_ns
        file.write_text(RIGHT)
        os.utime(file, ns=(created, created + 1))  # in the same second, which a look at the folder takes for no change
        read_to("PASS, ")
        process.stdin.write("h\ns\nq\n")
        process.stdin.flush()
        read_to("Hint 1 of")
        read_to("def layer_norm(")
        assert process.wait(60) == 0
    assert "\x1b" not in "".join(lines)
    assert in_turn(lines) == ["beginsPattern", "info", "endsPattern", "beginsPattern", "endsPattern"]
    assert sum(line.startswith("  pass") for line in lines) == len(PROBLEM.checks), "each check is printed once"


def test_no_problem_is_left(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from grader.cli.learner import main
    from grader.course.workspace import Workspace

    monkeypatch.setattr(Workspace, "next_problem", lambda self, after=None: None)
    result = CliRunner().invoke(main, ["--workspace", str(tmp_path), "watch"])
    assert result.exit_code == 2
    assert "You have passed every problem" in result.output
