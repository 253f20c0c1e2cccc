"""The command `grade watch`."""

import os
import sys

import click

from commandline import terminal
from commandline.errors import UsageError
from grader.course import catalog, workspace


@click.command()
@click.argument("word", metavar="[NN]", required=False)
@click.option("--edit-cmd", metavar="COMMAND", help="Opens your file when you press e [default: $VISUAL, or $EDITOR].")
@click.option("--poll", is_flag=True, help="Look for changes again and again, where the system does not report them.")
@click.pass_obj
def watch(folder: str | None, word: str | None, edit_cmd: str | None, poll: bool) -> None:
    """Grade problem NN at every save.

    NN is the problem that `grade next` names unless you name another. It stays until you press n or pick another from the list.
    """
    space = workspace.find(folder)
    problem = catalog.find(word) if word else space.next_problem()
    if problem is None:
        raise UsageError("You have passed every problem of the course. Name one, as in `grade watch 07`.")
    editor = edit_cmd or os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    from grader.resident.resident import Resident
    from grader.watch.printed import Printed
    from grader.watch.screen import Screen
    from grader.watch.session import WatchSession

    with Resident() as resident:
        session = WatchSession(space, problem, resident, lambda: shown.changed(), poll=poll)
        if sys.stdin.isatty() and terminal.can_redraw(sys.stdout):
            shown: Screen | Printed = Screen(session, editor, colors=terminal.has_colors())
        else:
            shown = Printed(session, editor)
        try:
            session.start()
            outdated = shown.run()
        finally:
            session.close()
    if outdated:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  this very program, with the new code


COMMANDS = [watch]
