"""`grade`: the command group, and the commands for learners. Imports each command's modules only when it runs."""

import itertools
import sys
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import click

from commandline import invocation, terminal
from commandline.commands import Commands
from commandline.errors import UsageError
from commandline.text import counted
from grader.cli import (
    author,
    book,
    cost,
    course,
    editors,
    explore,
    grading,
    hand_in,
    hunt,
    play,
    practice,
    progress,
    resident,
    results,
    task,
    teacher,
    watch,
)
from grader.course import catalog, log, paths, selection, vscode, workspace
from grader.course.workspace import Workspace
from grader.problem import Problem

MOST_LINES = 5  # for the new files of one folder


class Grade(Commands):
    """The commands of `grade`."""

    program = "grade"
    sections: ClassVar = {
        "Learn": (
            "start",
            "next",
            "path",
            "show",
            "predict",
            "problem",
            "hand-in",
            "test-out",
            "task",
            "claim",
            "watch",
            "web",
            "hint",
            "solution",
            "reset",
            "list",
            "certificate",
            "book",
            "glossary",
            "models",
        ),
        "See": ("play", "cost", "records", "try", "repl"),
        "Practise": ("review", "hunt"),
        "Teach": ("pack", "export", "batch", "results", "push"),
        "Author": ("new", "verify", "course"),
        "Connect": ("lsp", "mcp"),
        "Check": ("doctor", "resident"),
    }
    extensions = "gpt_kata.commands"


@click.group(
    cls=Grade,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option("--workspace", "folder", metavar="DIR", help="Your workspace [default: the nearest one, or attempts].")
@click.option(
    "--course",
    metavar="DIR|NAME",
    help="The course: a folder, or an installed one [default: $GRADE_COURSE, or that of your workspace].",
)
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), hidden=True, help="The date of reviews, for tests.")
@click.version_option(package_name="gpt-kata", prog_name="grade")
@click.pass_context
def main(ctx: click.Context, folder: str | None, course: str | None, today: datetime | None) -> None:
    """Learn to build a GPT in JAX and Flax NNX, one graded problem at a time.

    \b
    Start with     grade start
    read a page    grade show 07
    solve it in    attempts/p07_next_token_loss.py
    and grade it   grade problem 07

    Exit codes: 0 passed, 1 not passed, 2 usage error, 3 internal error, 130 after
    Ctrl-C.
    """
    ctx.obj = folder
    log.set_today(today.date() if today else None)
    invocation.keep_options("grade", workspace=folder, course=course)
    space = workspace.find(folder)
    if ctx.invoked_subcommand != "course":  # which works where the selected one cannot be used
        selection.select(course, space.course)
    if ctx.invoked_subcommand is None:
        if any(row.attempted for row in space.progress().values()):
            progress.welcome(space)
        elif (first := space.next_problem()) and space.file(first).exists():
            progress.first_step(space, first)
        else:
            click.echo(ctx.get_help())


@main.command()
@click.argument("directory", required=False)
@click.option("--path", "path", metavar="NAME", help="Choose a path through the course; `grade path` lists them.")
@click.pass_obj
def start(folder: str | None, directory: str | None, path: str | None) -> None:
    """Create your workspace: a stub and a page for every problem.

    DIRECTORY is `attempts` unless you name another. Your files are never overwritten. Run it again after an update to
    get new problems and pages.
    """
    space = Workspace(Path(directory)) if directory else workspace.find(folder)
    chosen = paths.find(path) if path else None
    created, edited = space.start()
    if chosen:
        space.choose_path(chosen)
    for_vscode, lacking = vscode.add(space.folder)
    created += for_vscode
    if not created and not edited and not lacking:
        terminal.echo(f"{space.folder} is up to date.")
    for folder_, files in itertools.groupby(created, key=lambda file: file.parent):
        new = [*files]
        if len(new) > MOST_LINES:
            click.echo(f"new   {folder_}: {len(new)} files, from {new[0].name} to {new[-1].name}")
        else:
            click.echo("\n".join(f"new   {each}" for each in new))
    for kept in edited:
        terminal.echo(
            f"kept  {kept}: you may have edited it. To get the new page, delete it and run `grade start` again.",
            indent=6,
        )
    for kept, names in lacking.items():
        terminal.echo(
            f"kept  {kept}: it lacks {' and '.join(map(repr, names))}. `grade start` in a new folder writes a file to "
            "copy from.",
            indent=6,
        )
    if workspace.find(None).folder.resolve() != space.folder.resolve():
        invocation.keep_options("grade", workspace=str(space.folder))  # which knows its course
    for name, reason in catalog.unreadable().items():
        terminal.echo(f"left out  problem {name.label}, which cannot be read: {reason}", indent=10)
    first = space.next_problem() or catalog.problems()[0]
    label = first.label
    click.echo()
    if chosen:
        hours = f", {chosen.hours}" if chosen.hours else ""
        terminal.echo(f"Your path: {chosen.title}, {counted(len(chosen.problems), 'problem')}{hours}. {chosen.then}")
    terminal.echo(f"Next: read `grade show {label}`, fill in {space.file(first)}, grade with `grade problem {label}`.")
    terminal.echo("After that, and whenever you come back, `grade next` says what comes next, and why.")
    if instead := space.instead_of(first):
        terminal.echo(
            f"Problem {label} belongs to an optional part: you can start with problem {instead.label} instead."
        )


def _has_passed(space: Workspace, problem: Problem) -> bool:
    return space.progress().get(problem.name, log.Progress()).verdict == "PASS"


@main.command()
@click.argument("word", metavar="NN")
@click.option("--pitfalls", is_flag=True, help="Show all pitfalls, as after the first attempt.")
@click.option(
    "--cold/--whole", "cold", default=None,
    help="Show only why, the formulas, what to write and the sources; or all of it. The course decides without either.",
)  # fmt: skip
@click.pass_obj
def show(folder: str | None, word: str, pitfalls: bool, cold: bool | None) -> None:
    """Read the page of problem NN, or of an open task.

    The last problem of each late part shows less until you have passed it: you work from its formulas and its sources.
    """
    from grader.course import page, tasks
    from grader.resident import spawn

    problem = tasks.find_either(word)
    label, count = problem.label, len(page.hints(problem))
    space = workspace.find(folder)
    if label in tasks.names():
        end = f"Score with `grade task {label}`."
    else:
        # While the page is read, there is time to compute what a verdict on a wrong attempt needs.
        spawn.leave(problem.name, space.folder)
        end = f"{count} hints: `grade hint {label}`. Grade with `grade problem {label}`."
    if cold is None:
        cold = label not in tasks.names() and catalog.is_cold(problem) and not _has_passed(space, problem)
    if cold and not pitfalls:
        shown = page.cold(problem)
        end = f"This page shows less on purpose; `grade show {label} --whole` shows all of it."
    else:
        shown = page.without_hints(problem)
    attempted = space.progress().get(problem.name, log.Progress()).attempted
    text = page.as_text(shown, all_pitfalls=pitfalls or attempted)
    terminal.page(f"{terminal.markdown(text)}\n{terminal.fitted(end)}\n")


@main.command()
@click.argument("word", metavar="NN")
@click.option("--again", is_flag=True, help="Show the hints that you have already seen, and no new one.")
@click.pass_obj
def hint(folder: str | None, word: str, again: bool) -> None:
    """Show the next hint for problem NN.

    The first hint is a nudge, the last is nearly the answer.
    """
    from grader.course import page

    problem = catalog.find(word)
    space = workspace.find(folder)
    hints, seen = page.hints(problem), space.hints_seen(problem)
    count = seen if again else min(seen + 1, len(hints))
    if not count:
        click.echo("You have not seen any hints yet.")
    first = 0 if again or seen >= len(hints) else count - 1
    for number, text in list(enumerate(hints, 1))[first:count]:
        click.echo(terminal.markdown(page.as_text(f"Hint {number} of {len(hints)}: {text}\n")))
    left = len(hints) - count
    more = ""
    if count > seen and not space.folder.is_dir():
        more = " This one is not recorded: there is no workspace. `grade start` creates one."
    elif left:
        more = f" `grade hint {problem.label}` shows the next."
    elif catalog.shows_solution(problem):
        option = "" if _has_passed(space, problem) else " --give-up"
        more = f" `grade solution {problem.label}{option}` shows the answer."
    terminal.echo(f"{counted(left, 'hint')} left.{more}")
    if count > seen:
        space.remember(problem, hints=count)


@main.command()
@click.argument("word", metavar="NN")
@click.option("--give-up", is_flag=True, help="Show it even though you have not passed.")
@click.pass_obj
def solution(folder: str | None, word: str, give_up: bool) -> None:
    """Read the reference of problem NN, with its reasons, after a pass."""
    problem = catalog.find(word)
    space, text = workspace.find(folder), catalog.explained_solution(problem)
    passed = _has_passed(space, problem)
    if not passed and not give_up:
        raise UsageError(
            f"You have not passed problem {problem.label} yet. `grade hint {problem.label}` helps; "
            f"`grade solution {problem.label} --give-up` shows the answer anyway."
        )
    if not passed:
        space.remember(problem, given_up=True)
    # Elsewhere the text may be saved as a program, so no line of it is broken.
    click.echo("\n".join(terminal.listing(text, terminal.width())) if sys.stdout.isatty() else text.removesuffix("\n"))


@main.command()
@click.pass_obj
def doctor(folder: str | None) -> None:
    """Check this machine: versions, devices, isolation, directories."""
    from grader.cli import doctor as doctor_

    fine = True
    for finding in doctor_.examine(workspace.find(folder)):
        terminal.echo(f"{'ok   ' if finding.fine else 'CHECK'} {finding.subject:17} {finding.state}", indent=24)
        if finding.remedy:
            terminal.echo(f"{'':24}{finding.remedy}", indent=24)
        fine = fine and (finding.fine or not finding.serious)
    sys.exit(0 if fine else 1)


for command in (
    *grading.COMMANDS,
    *hand_in.COMMANDS,
    *task.COMMANDS,
    *progress.COMMANDS,
    *watch.COMMANDS,
    *practice.COMMANDS,
    *hunt.COMMANDS,
    *explore.COMMANDS,
    *play.COMMANDS,
    *cost.COMMANDS,
    *editors.COMMANDS,
    *author.COMMANDS,
    *book.COMMANDS,
    *course.COMMANDS,
    *teacher.COMMANDS,
    *results.COMMANDS,
    *resident.COMMANDS,
):
    main.add_command(command)

if __name__ == "__main__":
    main()
