"""Commands in a real terminal: widths, colors, the pager, signs of life, Ctrl-C."""

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from commandline.terminal import fitted, listing, wrap
from tests.conftest import NO_SHIFT, ROOT, misconception_name
from tests.terminals import CTRL_C, Screen, in_terminal


class Interrupter:
    """Types Ctrl-C once the screen shows a text. Remembers the processes of the command."""

    def __init__(self, shown: str):
        self.shown, self.processes = shown, list[psutil.Process]()

    def __call__(self, pid: int, screen: str) -> bytes | None:
        if self.processes or self.shown not in screen:
            return None
        command = psutil.Process(pid)
        if below := command.children(recursive=True):
            self.processes = [command, *below]
            return CTRL_C
        return None

    def check(self, screen: Screen) -> None:
        """Asserts that the command ended in one sentence with its exit code, and that no process is left."""
        assert screen.code == 130, screen.text
        assert "Interrupted" in screen.text.splitlines()[-1]
        assert "Traceback" not in screen.text
        assert not psutil.wait_procs(self.processes, timeout=5)[1]


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A folder with a submission that never ends."""
    path = tmp_path / "class" / "ann" / "p07_next_token_loss.py"
    path.parent.mkdir(parents=True)
    path.write_text("while True: pass\n")
    return path


@pytest.mark.parametrize(("columns", "longest"), [(40, 60), (200, 120)])
def test_a_verdict_is_as_wide_as_the_terminal(columns: int, longest: int, wrong: Path, tmp_path: Path):
    screen = in_terminal("problem", "07", wrong, cwd=tmp_path, columns=columns)
    assert screen.code == 1
    assert longest - 20 < screen.longest <= longest
    assert misconception_name("07", NO_SHIFT) in " ".join(screen.text.split()), "no word is broken"
    assert "\x1b[31m" in screen.raw


def test_a_list_in_a_message_keeps_its_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("commandline.terminal.width", lambda stream=None: 24)
    message = (
        "Settings differ:\n  context: 64 -> 32\n  steps: 600 -> 9, and many others\n"
        "Use the same ones to resume the run."
    )
    assert fitted(message).splitlines() == [
        "Settings differ:",
        "  context: 64 -> 32",
        "  steps: 600 -> 9, and",
        "  many others",
        "Use the same ones to",
        "resume the run.",
    ]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_styles_where_they_are_not_wanted(env: dict[str, str], wrong: Path, tmp_path: Path):
    for code, args in {0: ["show", "02"], 1: ["problem", "07", wrong], 2: ["nonsense"]}.items():
        screen = in_terminal(*args, cwd=tmp_path, PAGER="cat", **env)
        assert screen.code == code
        assert not re.search("\x1b\\[[0-9;]*m", screen.raw), args


def test_a_page_goes_through_the_pager_with_its_formulas_as_text(tmp_path: Path):
    pager = tmp_path / "my pager"
    pager.write_text("#!/bin/sh\necho PAGED $1\ncat\n")
    pager.chmod(0o755)
    screen = in_terminal("show", "02", cwd=tmp_path, PAGER=f"'{pager}' -x")
    assert screen.code == 0
    assert screen.text.startswith("PAGED -x\n")
    assert "attention(q, k, v) = softmax(q kᵀ / √K + mask) v" in screen.text
    assert "4 hints: `grade hint 02`." in screen.text
    missing = in_terminal("show", "02", cwd=tmp_path, PAGER="no-such-pager")
    assert (missing.code, missing.text) == (0, screen.text.removeprefix("PAGED -x\n"))
    broken = in_terminal("show", "02", cwd=tmp_path, PAGER='"')
    assert (broken.code, broken.text) == (2, 'grade: PAGER=" is not a valid command: No closing quotation.\n')


def test_a_spinner_turns_until_ctrl_c(endless: Path, tmp_path: Path):
    typist = Interrupter("grading problem 07 0:00:01")

    def without_colors(pid: int, screen: str) -> bytes | None:
        return typist(pid, re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", screen))

    screen = in_terminal("problem", "07", endless, cwd=tmp_path, typist=without_colors)
    typist.check(screen)
    assert len(set(re.findall("[\u2800-\u28ff]", screen.text))) > 3


def test_a_terminal_that_cannot_redraw_gets_a_line(endless: Path, tmp_path: Path):
    typist = Interrupter("grading problem 07 ...")
    screen = in_terminal("problem", "07", endless, cwd=tmp_path, typist=typist, TERM="dumb")
    typist.check(screen)
    # The terminal echoes ^C, unless the program has ended by then. Click adds a line if the command was about to start.
    assert re.fullmatch(r"grading problem 07 \.\.\.\n?(\^C)?\n{0,2}Interrupted\.\n", screen.text)


def test_ctrl_c_ends_a_batch(endless: Path, tmp_path: Path):
    typist = Interrupter("0 submissions")
    screen = in_terminal(
        "batch", endless.parents[1], "--out", "results", "--accept-isolation", "weak", cwd=tmp_path, typist=typist
    )
    typist.check(screen)
    assert "Interrupted with 0 of 1 results saved. Rerun the command to resume." in screen.text


def test_ctrl_c_while_a_command_is_imported(tmp_path: Path):
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt\n")
    boot = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}]; from commandline.start import start; "
        f"start('slow')"
    )
    done = subprocess.run([sys.executable, "-c", boot], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


LOSES_ONE = """import signal, sys, time
import click
from commandline.commands import Commands

class Finalizer:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@click.group(cls=Commands)
def program():
    pass

@program.command()
def wait():
    Finalizer()
    time.sleep(60)

Commands.program = "program"
program(["wait"])
"""


def test_ctrl_c_where_python_ignores_exceptions():
    done = subprocess.run([sys.executable, "-c", LOSES_ONE], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.fast
def test_words_and_short_code_are_not_broken():
    lines = wrap("Read " + "a" * 70 + " and type `grade problem 07 --seed 3` or well-known words.", 60, 2)
    assert lines == ["  Read", "  " + "a" * 70, "  and type `grade problem 07 --seed 3` or well-known words."]


@pytest.mark.fast
def test_a_long_line_of_a_program_is_broken_between_words():
    lines = listing("class A:\n    def f(self, first: int, second: int) -> str:\n", 30)
    assert lines == ["class A:", "    def f(self, first: int,", "            second: int)", "            -> str:"]
    typed = listing('def f(q: Float[Array, "T K"], k: Float[Array, "T K"]) -> Float[Array, "T K"] | None:\n', 40)
    assert typed == [
        'def f(q: Float[Array, "T K"],', '        k: Float[Array, "T K"])', '        -> Float[Array, "T K"] | None:',
    ]  # fmt: skip
    assert listing('    """The mean of all that is there."""', 30) == [
        '    """The mean of all that is',
        '    there."""',
    ]
