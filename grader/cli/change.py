"""The part of `grade task` that is about changes to review."""

import json
import os
from typing import TYPE_CHECKING, Any

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.text import counted
from grader.course.workspace import Workspace
from grader.task import Review

if TYPE_CHECKING:
    from grader.changes.change import Change
    from grader.changes.reviewing import ReviewSpace, UnderWay
    from grader.changes.testing import Judged


def review_change(home: Workspace, task: Review, *, give_up: bool, as_json: bool) -> int:
    """Begins a change if none is under way; otherwise judges what is new in its folder, or ends it. Returns the exit
    code: 0 once the change has ended in a class, and 1 before that."""
    from grader.changes.reviewing import ReviewSpace

    space = ReviewSpace(home, task)
    current = space.under_way()
    if current is None:
        if give_up:
            raise UsageError(f"No change is under way. `grade task {task.label}` begins one.")
        current = _begin(space)
        _say(space, current, {}, as_json=as_json)
        return 0
    space.write(current)
    if give_up:
        space.end(current)
        _say(space, current, {}, as_json=as_json)
        return 1
    new = space.new(current)
    judged = _run(space, current, new) if new.verdicts or new.tests else {}
    _say(space, current, judged, as_json=as_json)
    if not new.verdicts and not new.tests:
        click.echo("Nothing in the folder is new, so this was no run.", err=as_json)
    return 0 if current.ended and task.standard(current.points) else 1


def _begin(space: "ReviewSpace") -> "UnderWay":
    from commandline.progress import working
    from grader.changes.drawing import Proofs
    from grader.resident import grade_file

    with grade_file.fork_server() as workers, working("drawing a change") as say, Proofs(workers, say) as proofs:
        return space.begin(os.urandom(4).hex(), proofs)


def _run(space: "ReviewSpace", current: "UnderWay", new: Any) -> dict[int, "Judged"]:
    from contextlib import closing

    from commandline.progress import working
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer

    # A fork server of its own, from which nothing but these workers is forked.
    with closing(ForkServer()) as workers, working("running your tests", lines=True) as say:
        judged = space.run(current, new, workers, say)
    scratch.leave()
    return judged


def _say(space: "ReviewSpace", current: "UnderWay", judged: dict[int, "Judged"], *, as_json: bool) -> None:
    from grader.changes import reviewing

    change = current.plan.change()
    if as_json:
        click.echo(json.dumps(reviewing.as_json(space, current, change, judged), ensure_ascii=False))
        return
    if not current.runs and not current.ended:
        _show(space, current, change)
        return
    for line in reviewing.lines(space, current, change, judged):
        terminal.echo(line)


def _show(space: "ReviewSpace", current: "UnderWay", change: "Change") -> None:
    from grader.changes import reviewing

    task = space.task
    click.echo(click.style(f"{task.title}, change {current.number}", bold=True))
    terminal.echo(reviewing.description(task, change))
    for line in change.diff().splitlines():
        click.echo(click.style(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[0]) if line else None))
    click.echo()
    terminal.echo(
        f"{counted(change.size, 'changed line')} in {counted(len(change.hunks), 'hunk')}, all in "
        f"{space.folder(current)}. Write your verdicts into review.toml there, and a test_N.py for each faulty hunk; "
        f"then `grade task {task.label}`. `grade show {task.label}` explains it."
    )
