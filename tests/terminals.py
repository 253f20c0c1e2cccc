"""A pseudo-terminal for tests: a command sees a terminal of a given size, and Ctrl-C comes from its keyboard."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tests.conftest import ROOT

# The program makes the terminal its own, so that the terminal's Ctrl-C reaches it and its processes.
BOOT = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    f"sys.path.insert(0, {str(ROOT)!r}); from {{package}}.__main__ import main; main()"
)
CTRL_C = b"\x03"
_NOT_INHERITED = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "LESS")


@dataclass(frozen=True)
class Screen:
    """What a finished command wrote to its terminal, in order, and its exit code."""

    code: int
    raw: str

    @property
    def text(self) -> str:
        """What it wrote, without colors."""
        return click.unstyle(self.raw).replace("\r\n", "\n")

    @property
    def longest(self) -> int:
        """The columns of the longest line."""
        return max(map(len, self.text.splitlines()))


Typist = Callable[[int, str], bytes | None]


def in_terminal(
    *args: object,
    cwd: Path,
    columns: int = 80,
    program: Sequence[str] = (sys.executable, "-c", BOOT.format(package="grader")),
    typist: Typist = lambda pid, text: None,
    **env: str,
) -> Screen:
    """Runs `grade ARGS`, or another program, in a terminal of that many columns.

    `typist` gets the process id and the text so far, many times a second, and returns what to type, if anything.
    """
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    process = subprocess.Popen(
        [*program, *map(str, args)], cwd=cwd, env={**inherited, "TERM": "xterm-256color", **env},
        stdin=inside, stdout=inside, stderr=inside, start_new_session=True,
    )  # fmt: skip
    os.close(inside)
    written, deadline = b"", time.monotonic() + 300
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.05)
        try:
            piece = os.read(terminal, 1 << 16) if ready else b""
        except OSError:  # the last process has closed the terminal
            break
        if ready and not piece:
            break
        written += piece
        if keys := typist(process.pid, written.decode(errors="replace")):
            os.write(terminal, keys)
    else:
        process.kill()
    os.close(terminal)
    return Screen(process.wait(10), written.decode(errors="replace"))
