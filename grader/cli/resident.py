"""The command `grade resident`: the process that a grading leaves behind."""

import time
from collections.abc import Iterator
from typing import Any

import click

from commandline import terminal
from commandline.text import counted


@click.group()
def resident() -> None:
    """See or stop the process that makes the next grading fast.

    `grade problem` in a terminal leaves it behind. It ends after 15 minutes without work, when the terminal is closed,
    when the course or a package changes, and when memory is low. GRADE_RESIDENT=0 forbids it. GRADE_RESIDENT=1 asks for
    it without a terminal, too.
    """


@resident.command()
def status() -> None:
    """List your processes that grade for other commands. Exits 1 if none is running."""
    found = list(states())
    for text in found or ["No process grades for other commands. `grade problem` in a terminal leaves one behind."]:
        terminal.echo(text)
    raise SystemExit(0 if found else 1)


@resident.command()
def stop() -> None:
    """End the processes that gradings have left behind, of all courses."""
    import psutil

    from grader.resident import connection

    found = [psutil.Process(each.process) for _, each in connection.connect_to_all() if each.is_left_behind()]
    for process in found:
        if connection.runs(process.pid):
            process.terminate()
    _, left = psutil.wait_procs(found, timeout=3)
    for process in left:
        process.kill()
    ended = ", ".join(f"process {process.pid}" for process in found)
    terminal.echo(f"Stopped {ended}." if found else "There is no process to stop.")


def states() -> Iterator[str]:
    """Yields a sentence on each process of this user that grades for other commands."""
    from grader.resident import connection

    for _, each in connection.connect_to_all():
        try:
            each.send(wants="state")
            about = _about(each.receive(), each.is_left_behind())
        except (connection.GoneError, KeyError, TypeError):
            about = "does not answer. `grade resident stop` ends it"
        yield f"Process {each.process} {about}."


def _about(state: dict[str, Any], was_left_behind: bool) -> str:
    from grader.resident.spawn import IDLE_SECONDS

    done = counted(state["gradings"], "grading")
    since = time.strftime("%H:%M", time.localtime(state["started"]))
    left = max((IDLE_SECONDS - state["idle"]) / 60, 0)
    end = (
        f"it ends in {left:.0f} min if nobody needs it" if was_left_behind else "another program of the course runs it"
    )
    return f"grades {state['course']!r}: {done} since {since}; {end}"


COMMANDS = (resident,)
