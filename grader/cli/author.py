"""The commands of `grade` for authors: create a problem, and check that problems are sound."""

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog, tasks
from grader.course.selection import selected
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.course.findings import Finding
    from grader.isolation.sandbox import Workers
    from grader.soundness import Row
    from grader.task import Task


@click.command()
@click.argument("problems", metavar="[NN ...]", nargs=-1)
@click.option("--jobs", type=click.IntRange(1, 64), help="Problems verified at a time [default: one per core].")
@click.option(
    "--seeds", type=click.IntRange(0, 1000), default=20, show_default=True, help="Number of other seeds to try."
)
@click.option(
    "--changed-since",
    metavar="REF",
    help="Only problems that a change since this Git commit touches, committed or not: in their folder, their "
    "solution, another style, a forgery, or a module of the course that they import.",
)
@click.option("--hunts", is_flag=True, help="Try every hunt instead: how many there are, and which are not offered.")
@click.option("--runs", is_flag=True, help="Try the hunts in whole training runs instead, half a minute each.")
@click.option("--promises", is_flag=True, help="List the promises of the pages, each with its check.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
def verify(
    problems: tuple[str, ...],
    jobs: int | None,
    seeds: int,
    changed_since: str | None,
    promises: bool,
    hunts: bool,
    runs: bool,
    as_json: bool,
) -> None:
    """Check that problems are sound, and open tasks that are named.

    The stub must be NOT ATTEMPTED and the reference must pass. Every misconception must be rejected and correctly
    identified. The page must have all its sections and true examples, and no file may have a TODO left. With other
    seeds, the reference must still pass and every misconception must still be rejected. Every tolerance needs a safety
    margin on both sides. Every pitfall of the page must be a misconception, and every promise of the page must have a
    check that rejects a program that breaks it. A problem's play must show something of the reference. Exits 1 if
    anything falls short.

    NN may be the name of an open task: its stub must be in no class, each class must have a file that is in it, and
    each forgery must be refused. This takes minutes. In a task of changes to review, each fault of some changes must
    fail the grader alone, and the task's own test of it must count.
    """
    from grader import soundness
    from grader import verify as verify_

    if named := [word for word in problems if word in tasks.names()]:
        if len(named) < len(problems):
            raise UsageError("Verify open tasks and problems with two commands.")
        sys.exit(_verify_tasks(named, as_json))
    chosen = [catalog.find(word) for word in problems] or catalog.problems()
    broken = {} if problems else catalog.unreadable()
    if changed_since:
        from grader.course import changes

        chosen = changes.changed_since(chosen, changed_since)
        if not chosen and not broken and not as_json:
            click.echo(f"No change since {changed_since} touches a problem.")
            return
    if hunts:
        sys.exit(_verify_hunts(chosen, jobs, as_json))
    if runs:
        sys.exit(_verify_runs())
    unread = (soundness.Row(name, asked=seeds, complaints=[reason]) for name, reason in broken.items())
    found = itertools.chain(verify_.verify(chosen, jobs, seeds), unread)
    sys.exit(_say_soundness(found, as_json, promises))


def _say_soundness(found: Iterable["Row"], as_json: bool, promises: bool) -> int:
    """Prints what was found, below it the margins, and the promises if asked for. Returns the exit code."""
    from grader import soundness

    rows = list(found if as_json else _printed(found))
    short = sum(bool(row.complaints) for row in rows)
    if as_json:
        click.echo(json.dumps({"schema": 1, "sound": not short, "problems": [row.encode() for row in rows]}))
    else:
        click.echo(soundness.margins_table(rows))
        if promises:
            click.echo(soundness.promises_list(rows))
        click.echo(f"\n{counted(len(rows), 'problem')}, {f'{short} not sound' if short else 'all sound'}.")
    return 1 if short else 0


def _printed(rows: Iterable["Row"]) -> Iterator["Row"]:
    """Prints each of `rows` as soon as it is known, with its complaints, below a heading. Yields them."""
    from grader import soundness

    for number, row in enumerate(rows):
        if not number:
            click.echo(soundness.HEADER)
        click.echo(row.line())
        for complaint in row.complaints:
            click.echo(f"      {complaint}")
        yield row


def _verify_tasks(names: list[str], as_json: bool) -> int:
    """Verifies open tasks, and prints what was found. Returns the exit code."""
    from grader.cli.grading import fork_server

    complaints: dict[str, list[str]] = {}
    with fork_server("verifying") as server:
        for name in names:
            complaints[name] = []
            for line, complaint in _findings(tasks.find(name), server):
                complaints[name] += [complaint] if complaint else []
                if not as_json:
                    click.echo(f"{'FAIL' if complaint else 'ok':5}{name}  {complaint or line}")
    sound = not any(complaints.values())
    if as_json:
        click.echo(json.dumps({"schema": 1, "sound": sound, "tasks": complaints}))
    return 0 if sound else 1


def _findings(task: "Task", server: "Workers") -> Iterator["Finding"]:
    """Yields what is found about a task of any kind. A file of it that is missing is a complaint, too."""
    from grader.changes import soundness as of_changes
    from grader.course.findings import finding
    from grader.diagnosis import soundness as of_diagnosis
    from grader.experiment import soundness as of_experiment
    from grader.task import Diagnosis, Experiment, Review
    from grader.tasks import soundness

    try:
        if isinstance(task, Experiment):
            yield from of_experiment.verify(task, server)
        elif isinstance(task, Diagnosis):
            yield from of_diagnosis.verify(task, server)
        elif isinstance(task, Review):
            yield from of_changes.verify(task, server)
        else:
            yield from soundness.verify(task, server)
    except UsageError as error:
        yield finding(str(error), sound=False)


def _verify_runs() -> int:
    """Tries the hunts in whole training runs, and prints what was found. Returns the exit code."""
    from grader.practice import runs

    count, shown = runs.prove(click.echo)
    click.echo(f"\n{shown} of {counted(count, 'hunt')} in whole runs show something.")
    return 0 if shown else 1


def _verify_hunts(chosen: list[Problem], jobs: int | None, as_json: bool) -> int:
    """Tries the hunts of some problems, and prints what was found. Returns the exit code."""
    from dataclasses import asdict

    from grader import verify as verify_

    rows = []
    for row in verify_.verify_hunts(chosen, jobs):
        rows.append(row)
        if not as_json:
            for line in (
                row.line(),
                *(f"      {text}" for text in row.complaints),
                *(f"      left out: {text}" for text in row.left_out),
            ):
                click.echo(line)
    sound = all(not row.complaints for row in rows)
    total, over = sum(row.sound for row in rows), sum(row.sound > 0 for row in rows)
    if as_json:
        click.echo(json.dumps({"schema": 1, "sound": sound, "hunts": total, "problems": [asdict(row) for row in rows]}))
    else:
        click.echo(f"\n{counted(total, 'sound hunt')} over {counted(over, 'problem')}.")
    return 0 if sound else 1


@click.command()
@click.argument("slug")
@click.option("--title", help="Title of the problem [default: the words of SLUG].")
def new(slug: str, title: str | None) -> None:
    """Create a problem in the selected course.

    SLUG is a name such as demo, which gets the next free number, or a number and a name such as 98_demo. The new files
    make up a complete small problem. Each has TODO comments for what is still to write, and `grade verify` lists them.
    """
    from grader.course import scaffold

    name, paths = scaffold.create(slug, title)
    for path in paths:
        click.echo(f"new   {path.relative_to(selected().root)}")
    click.echo()
    terminal.echo(
        f"Next: replace the TODOs in these files. `grade verify {name.label}` checks the problem and lists the TODOs "
        f"left; "
        f"`grade problem {name.label} solutions/{name}.py` grades the reference. List "
        f'"{name}" in course.toml to give it a place.'
    )


COMMANDS = (new, verify)
