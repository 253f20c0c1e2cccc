"""The command `grade watch`."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from grader.course import catalog, workspace

if TYPE_CHECKING:
    from grader.resident.resident import Resident
    from grader.watch.watch_session import WatchSession


@click.command()
@click.argument("word", metavar="[NN]", required=False)
@click.option("--edit-cmd", metavar="COMMAND", help="Opens your file when you press e [default: $VISUAL, or $EDITOR].")
@click.option("--poll", is_flag=True, help="Look for changes again and again, where the system does not report them.")
@click.option("--lines", is_flag=True, help="Print lines instead of drawing a screen, as an editor's task reads them.")
@click.pass_obj
def watch(folder: str | None, word: str | None, edit_cmd: str | None, poll: bool, lines: bool) -> None:
    """Grade problem NN at every save.

    NN is the problem that `grade next` names unless you name another. It stays until you press n or pick another from
    the list.
    """
    space = workspace.find(folder)
    problem = catalog.find(word) if word else space.next_problem()
    if problem is None:
        raise UsageError("You have passed every problem of the course. Name one, as in `grade watch 07`.")
    from grader.watch.watch_session import WatchSession

    run(
        lambda resident, changed: WatchSession(space, problem, resident, changed, poll=poll, workers=resident),
        edit_cmd, lines=lines,
    )  # fmt: skip


def run(
    make: "Callable[[Resident, Callable[[], None]], WatchSession]", edit_cmd: str | None, *, lines: bool = False
) -> None:
    """Runs a session of watch mode until the learner quits: on the screen, or line by line where that is necessary or
    wanted.

    `make` makes the session from a resident judge and a callback for changes. `edit_cmd` opens a file instead of the
    user's editor.
    """
    from grader.resident.resident import Resident
    from grader.watch.screen import Screen
    from grader.watch.watch_lines import Printed

    editor = edit_cmd or os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    with Resident() as resident:
        session = make(resident, lambda: shown.changed())
        if not lines and sys.stdin.isatty() and terminal.can_redraw(sys.stdout):
            shown: Screen | Printed = Screen(session, editor, colors=terminal.has_colors())
        else:
            shown = Printed(session, editor)
        try:
            session.start()
            outdated = shown.run()
        finally:
            session.close()
    if outdated:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  this program, with the new code


COMMANDS = [watch]
