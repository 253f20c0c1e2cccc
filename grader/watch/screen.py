"""Watch mode on a terminal's whole screen: a header, a text that scrolls, and the keys."""

import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click
from prompt_toolkit import Application
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth

from commandline import terminal
from commandline.errors import CommandError
from grader.course import page
from grader.watch import texts
from grader.watch.watch_session import WatchSession


class Screen:
    """Shows a session until the learner quits. `editor` is the command that opens a file."""

    def __init__(self, session: WatchSession, editor: str, *, colors: bool) -> None:
        self.session, self.editor, self.colors = session, editor, colors
        self.view: Callable[[int], list[str]] = self._verdict
        self.message = ""
        self.top = 0  # the first line shown of a view
        self.words, self.chosen = "", 0  # of the list
        self.reference = ""  # the solution, once it may be seen
        self.application: Application[None] = Application(
            Layout(Window(FormattedTextControl(self._text, show_cursor=False), wrap_lines=False)),
            key_bindings=self._keys(), full_screen=True,
            color_depth=None if colors else ColorDepth.DEPTH_1_BIT, refresh_interval=session.refresh,
        )  # fmt: skip
        self.application.ttimeoutlen = 0.05  # seconds, after which Escape is a key and not the start of one

    def run(self) -> bool:
        """Runs until the learner quits. Returns whether the program must be started again.

        Raises KeyboardInterrupt after Ctrl-C. Restores the terminal however it ends.
        """

        def on_start() -> None:
            for number in (signal.SIGTERM, signal.SIGHUP):
                with suppress(NotImplementedError, AttributeError):  # Windows
                    self.application.loop.add_signal_handler(number, self._exit_for, number)  # type: ignore[union-attr]
            if self.session.state.outdated:
                self.application.exit()

        self.application.run(pre_run=on_start)
        return self.session.state.outdated

    def changed(self) -> None:
        """Redraws the screen. Called from any thread."""
        if self.session.state.outdated:
            self._in_loop(lambda: self.application.exit())
        self.application.invalidate()

    def _in_loop(self, action: Callable[[], None]) -> None:
        if self.application.loop and self.application.is_running:
            self.application.loop.call_soon_threadsafe(action)

    def _exit_for(self, number: int) -> None:
        self.application.exit(exception=SystemExit(128 + number))

    # What is on the screen

    def _text(self) -> ANSI:
        size = self.application.output.get_size()
        return ANSI("\n".join(self.lines(size)))

    def lines(self, size: Size) -> list[str]:
        """Returns the lines of a screen of that size."""
        columns = size.columns
        head = texts.header(self.session.state, str(self.session.file), texts.report_width(columns))
        head[-1:] = [*(terminal.wrap(self.session.banner(), texts.report_width(columns))), head[-1]]
        body = self.view(columns)
        room = max(size.rows - len(head) - 3, 1)  # without the two rules and the footer
        self.top = max(min(self.top, len(body) - room), 0)
        shown = body[self.top : self.top + room]
        below = len(body) - self.top - room
        rule = click.style("─" * columns, dim=True)
        more = f"{below} more lines: Page Down" if below > 0 else ""
        last = texts.footer(self.session.keys, columns)
        if self.message or more:
            note = f" {self.message or more} "
            rule_below = (
                click.style("─" * 2, dim=True) + note + click.style("─" * max(columns - 2 - len(note), 0), dim=True)
            )
        else:
            rule_below = rule
        return [*head, rule, *shown, *[""] * (room - len(shown)), rule_below, last]

    def _verdict(self, columns: int) -> list[str]:
        if opening := self.session.opening():
            return terminal.markdown(page.as_text(opening)).splitlines()
        ending = [line for text in self.session.ending() for line in terminal.wrap(text, texts.report_width(columns))]
        return [
            *ending,
            *([""] if ending else []),
            *texts.verdict(self.session.state, columns, self.session.keys),
            *(texts.first_exhibit(self.session.state, self.session.played, columns) if self._plays else []),
        ]

    @property
    def _plays(self) -> bool:
        return "v" in self.session.keys

    def _play(self, columns: int) -> list[str]:
        played = self.session.played
        return texts.play(played, columns) if played else ["The play has ended: the file is being graded."]

    def _hints(self, columns: int) -> list[str]:
        return texts.hints(*self.session.hints(more=False))

    def _page(self, columns: int) -> list[str]:
        text = page.without_hints(self.session.state.problem)
        return terminal.markdown(page.as_text(text)).splitlines()

    def _solution(self, columns: int) -> list[str]:
        return terminal.markdown(f"```python\n{self.reference}```").splitlines()

    def _question(self, columns: int) -> list[str]:
        return terminal.wrap(self.session.question(), texts.report_width(columns))

    def _list(self, columns: int) -> list[str]:
        found = texts.problems(self.session.space, self.words, texts.report_width(columns))
        self.chosen = max(min(self.chosen, len(found) - 1), 0)
        room = max(self.application.output.get_size().rows - 8, 1)
        self.top = min(max(self.top, self.chosen - room + 3), self.chosen + 2)
        rows = [f"{'>' if number == self.chosen else ' '} {line}" for number, (_, line) in enumerate(found)]
        rows = [texts.bold(row) if number == self.chosen else row for number, row in enumerate(rows)]
        return [f"Search: {self.words}█", "", *(rows or ["No problem matches."])]

    # Keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        actions = {"n": self._next, "h": self._hint, "f": self._mend, "p": lambda: self._toggle(self._page),
                   "l": self._open_list, "e": self._edit, "r": self.session.grade, "s": self._ask_for_solution,
                   "v": self._see,
                   "q": self._quit}  # fmt: skip
        moves = {Keys.Up: -1, Keys.Down: 1}

        @keys.add(Keys.ControlC)
        @keys.add(Keys.SIGINT)
        def _(event: KeyPressEvent) -> None:
            event.app.exit(exception=KeyboardInterrupt())

        @keys.add(Keys.ControlZ)
        def _(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        @keys.add(Keys.Escape, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._show(self._verdict)

        @keys.add(Keys.PageUp)
        @keys.add(Keys.PageDown)
        def _(event: KeyPressEvent) -> None:
            self._scroll(
                (1 if event.key_sequence[0].key == Keys.PageDown else -1) * (event.app.output.get_size().rows // 2)
            )

        @keys.add(Keys.Up)
        @keys.add(Keys.Down)
        def _(event: KeyPressEvent) -> None:
            self._scroll(moves[Keys(event.key_sequence[0].key)])

        @keys.add(Keys.Enter)
        def _(event: KeyPressEvent) -> None:
            if self.view == self._list:
                self._choose()

        @keys.add(Keys.Backspace)
        def _(event: KeyPressEvent) -> None:
            self.words = self.words[:-1]

        @keys.add(Keys.Any)
        def _(event: KeyPressEvent) -> None:
            key = event.data
            if self.view == self._list:
                self.words += key if key.isprintable() else ""
                self.chosen = 0
            else:
                self.message = ""
                try:
                    if (action := actions.get(key)) and key in self.session.keys:
                        action()
                    else:
                        self.message = self.session.act(key)
                except CommandError as error:
                    self.message = str(error)

        return keys

    def _quit(self) -> None:
        self.application.exit()

    def _show(self, view: Callable[[int], list[str]]) -> None:
        self.view, self.top, self.message = view, 0, ""

    def _toggle(self, view: Callable[[int], list[str]]) -> None:
        self._show(self._verdict if self.view == view else view)

    def _scroll(self, lines: int) -> None:
        if self.view == self._list:
            self.chosen += lines
        else:
            self.top = max(self.top + lines, 0)

    def _next(self) -> None:
        self.session.open(self.session.next_problem())
        self._show(self._verdict)

    def _hint(self) -> None:
        self.session.hints(more=True)
        self._show(self._hints)
        self.top = 1 << 16  # the latest hint is the last

    def _mend(self) -> None:
        self.session.mend()
        self._show(self._verdict)

    def _see(self) -> None:
        self.session.play()
        self._show(self._play)

    def _open_list(self) -> None:
        self._show(self._list)
        self.words, names = "", [problem.name for problem, _ in texts.problems(self.session.space, "", 80)]
        self.chosen = names.index(self.session.state.problem.name)

    def _choose(self) -> None:
        found = texts.problems(self.session.space, self.words, 80)
        if found:
            problem = found[self.chosen][0]
            if problem is not self.session.state.problem:
                self.session.open(problem)
            self._show(self._verdict)

    def _ask_for_solution(self) -> None:
        if self.session.passed or self.view == self._question:
            self.reference = self.session.solution()
            self._show(self._solution)
        else:
            self._toggle(self._solution if self.view == self._solution else self._question)

    def _edit(self) -> None:
        command = self.session.editing(self.editor)

        def edit() -> None:
            try:
                subprocess.run(command, check=False)
            except OSError as error:
                self.message = f"{command[0]} cannot be started: {error.strerror}."

        self.application.create_background_task(_awaited(run_in_terminal(edit, in_executor=True)))


async def _awaited(task: Any) -> None:
    await task
