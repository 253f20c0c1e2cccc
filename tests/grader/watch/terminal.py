"""A terminal that a program runs in while a test types, resizes and reads the screen."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Self

import pyte

from tests.conftest import boot

SECONDS = 90.0  # to wait for a text; a machine may be busy


class Terminal:
    """Runs `grade ARGS`. Its output is drawn on a screen, as a terminal would draw it."""

    def __init__(self, *args: object, columns: int, rows: int = 40, **env: str) -> None:
        self.keyboard, inside = pty.openpty()
        self.screen, self.raw = pyte.Screen(columns, rows), b""
        self.resize(columns, rows)
        inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "EDITOR", "VISUAL")}
        program = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {boot()}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, args)], env={**inherited, "TERM": "xterm-256color", **env},
            stdin=inside, stdout=inside, stderr=inside, start_new_session=True,
        )  # fmt: skip
        os.close(inside)
        self._news = threading.Condition()
        threading.Thread(target=self._draw, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.keyboard)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def resize(self, columns: int, rows: int = 40) -> None:
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, *texts: str) -> str:
        """The screen, as soon as it shows all of the texts."""
        return self.wait_until(lambda screen: all(text in screen for text in texts), texts)

    def wait_until(self, holds: Callable[[str], bool], what: object = "") -> str:
        with self._news:
            done = self._news.wait_for(lambda: holds(self.text), SECONDS)
        assert done, f"{what} did not appear:\n{self.text}"
        return self.text

    def exit_code(self) -> int:
        code = self.process.wait(SECONDS)
        time.sleep(0.1)  # for the last output
        return code

    def _draw(self) -> None:
        stream = pyte.ByteStream(self.screen)
        while True:
            try:
                part = os.read(self.keyboard, 1 << 16)
            except OSError:
                return
            with self._news:
                self.raw += part
                stream.feed(part)
                self._news.notify_all()
