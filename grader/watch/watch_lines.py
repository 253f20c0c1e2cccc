"""Watch mode line by line, each printed once: where a screen cannot be redrawn, and for editors that read the lines.

An editor's task needs three of them (`grader.course.vscode`): BEGINS before each grading, `FILE:LINE:COL: error:
MESSAGE` for each finding, ENDS after it.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import click

from commandline import terminal
from commandline.errors import CommandError
from grader.course import page
from grader.course.vscode import BEGINS, ENDS
from grader.report import findings
from grader.watch import texts
from grader.watch.watch_play import Shown
from grader.watch.watch_session import State, WatchSession


class Printed:
    """Prints the events of a session. A line of input that begins with a key does what the key does on a screen."""

    def __init__(self, session: WatchSession, editor: str) -> None:
        self.session, self.editor = session, editor
        self._ended = threading.Event()
        self._whole = threading.RLock()  # held while something is printed, so that nothing else comes between its lines
        self._last: State | None = None
        self._played: Shown | None = None  # the play whose exhibits are printed, and how many of them are
        self._exhibits, self._has_ended = 0, False
        self._before = ""  # the key of the line before

    def run(self) -> bool:
        """Runs until the learner quits. Returns whether the program must be started again.

        The end of the input does not end it, because there may be none.
        """
        threading.Thread(target=self._read, daemon=True).start()
        while not self._ended.wait(1.0):  # with a timeout, so that Ctrl-C is seen
            pass
        return self.session.state.outdated

    def changed(self) -> None:
        """Prints the lines that are new."""
        with self._whole:
            state, last = self.session.state, self._last
            self._last = state
            if last is None or state.problem is not last.problem:
                if self.session.followed:
                    self._print("", self.session.followed)
                self._print(
                    *texts.header(state, str(self.session.file), terminal.width())[:-1],
                    "Type a letter and Enter:",
                    texts.footer(self.session.keys, terminal.width()),
                    *terminal.markdown(page.as_text(self.session.opening())).splitlines(),
                )
            under_way = last is not None and last.grading and last.problem is state.problem
            if state.grading and not under_way:
                self._print("", f"{BEGINS} {self.session.file.name}")
            if state.report and not state.grading and state.report is not (last.report if last else None):
                self._print("", texts.with_keys(state.report, terminal.width(), self.session.keys))
                self._say(*self.session.ending())
                self._print("", *findings.lines(state.report, self.session.file))
            if state.error and not (last and last.error == state.error):
                self._say(state.error)
            if under_way and not state.grading:
                self._print(f"{ENDS} {self.session.file.name}")
            self._print_play()
            if state.outdated:
                self._ended.set()

    def _print_play(self) -> None:
        """Prints the exhibits that are new."""
        played = self.session.played
        if played is None:
            return
        if played is not self._played:
            self._played, self._exhibits, self._has_ended = played, 0, False
        new = played.exhibits[self._exhibits :]
        self._exhibits += len(new)
        self._print(*texts.exhibits(new, terminal.width()))
        if played.is_over and not self._has_ended:
            self._has_ended = True
            self._say(*filter(None, [played.said if played.is_whole else "Type v to see all of it at work."]))

    def _print(self, *lines: str) -> None:
        try:
            with self._whole:
                for line in lines:
                    click.echo(line, color=terminal.has_colors())
                sys.stdout.flush()
        except BrokenPipeError:  # nobody reads any more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._ended.set()

    def _say(self, *texts: str) -> None:
        with self._whole:
            for text in texts:
                terminal.echo(text)

    def _read(self) -> None:
        actions: dict[str, Callable[[], None]] = {
            "n": lambda: self.session.open(self.session.next_problem()),
            "h": self._hint,
            "f": lambda: self._say(self.session.mend()),
            "p": self._page,
            "l": self._list,
            "e": self._edit,
            "r": self.session.grade,
            "s": self._solution,
            "v": self.session.play,
            "q": self._ended.set,
        }
        for line in sys.stdin:
            key = line.strip()[:1]
            try:
                if (action := actions.get(key)) and key in self.session.keys:
                    action()
                elif said := self.session.act(key):
                    self._say(said)
            except CommandError as error:
                self._say(str(error))
            self._before = key

    def _hint(self) -> None:
        self._print("", *texts.hints(*self.session.hints(more=True)))

    def _page(self) -> None:
        text = page.without_hints(self.session.state.problem)
        self._print("", terminal.markdown(page.as_text(text)))

    def _list(self) -> None:
        self._print("", *(line for _, line in texts.problems(self.session.space, "", terminal.width())))

    def _solution(self) -> None:
        if self.session.passed or self._before == "s":
            self._print("", self.session.solution())
        else:
            self._say(self.session.question())

    def _edit(self) -> None:
        command = self.session.editing(self.editor)
        try:
            subprocess.run(command, check=False)
        except OSError as error:
            self._say(f"{command[0]} cannot be started: {error.strerror}.")
