"""The commands `grade review` and `grade test-out`."""

import sys
from datetime import date
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog, workspace
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.practice.review import ReviewSpace


@click.command()
@click.argument("word", metavar="[NN]", required=False)
@click.option("--core", "form", flag_value="core", help="Write only the core, a few lines of the reference.")
@click.option("--whole", "form", flag_value="whole", help="Write all of it.")
@click.option("--list", "lists", is_flag=True, help="Show what is due, what comes next, and your last year.")
@click.option("--grade", "once", is_flag=True, help="Grade the review's file once and exit, as `grade problem` does.")
@click.option("--end", is_flag=True, help="End the review that is under way, without a pass.")
@click.option("--rate", type=click.Choice(["again", "hard", "good", "easy"]), help="Correct the last rating.")
@click.option("--edit-cmd", metavar="COMMAND", help="Opens your file when you press e [default: $VISUAL, or $EDITOR].")
@click.option("--poll", is_flag=True, help="Look for changes again and again, where the system does not report them.")
@click.pass_obj
def review(
    folder: str | None, word: str | None, form: str | None, lists: bool, once: bool, end: bool, rate: str | None,
    edit_cmd: str | None, poll: bool,
) -> None:  # fmt: skip
    """Write a passed problem again, when its date has come.

    NN is what has been due for the longest unless you name another. You get a fresh stub in `reviews`, in your
    workspace. Your passed file is not changed. It is graded at every save, and the clock pauses when you press c or
    quit. The first reviews are short: only the core of a problem.
    """
    from grader.practice import schedule
    from grader.practice.review import ReviewSpace

    home = workspace.find(folder)
    if lists:
        _list(home)
        return
    space = ReviewSpace.of(home, form or "")
    problem = catalog.find(word) if word else space.next_problem()
    if problem is None:
        raise UsageError(_nothing_due(home))
    if rate:
        space.correct(problem, {name: number for number, name in schedule.RATINGS.items()}[rate])
        terminal.echo(f"Rated {rate}. Next review of problem {problem.label}: {_day(space.memory(problem).due)}.")
    elif end:
        space.end(problem)
        _say_end(space, problem)
    elif once:
        sys.exit(_grade_once(space, problem))
    else:
        _session(space, problem, edit_cmd, poll)


def _session(space: "ReviewSpace", problem: Problem, edit_cmd: str | None, poll: bool) -> None:
    from grader.cli import watch
    from grader.watch.review_session import ReviewSession

    space.memory(problem)  # refuses what was never passed, before anything is started
    watch.run(lambda resident, changed: ReviewSession(space, problem, resident, changed, poll=poll), edit_cmd)


def _grade_once(space: "ReviewSpace", problem: Problem) -> int:
    from grader.cli import grading
    from grader.judge.options import GradeOptions
    from grader.judge.verdict import Verdict
    from grader.report.terminal import render
    from grader.resident import grade_file

    if space.under_way(problem) is None and (new := space.add(problem)):
        click.echo(f"new   {new}\n")
    file = space.file(problem)
    report = grading.report(problem, file, GradeOptions(), modules=space.modules)
    click.echo(render(report, terminal.width()))
    grade_file.remember(space, report)
    if report.verdict is Verdict.PASS:
        _say_end(space, problem)
    return 0 if report.verdict is Verdict.PASS else 1


def _say_end(space: "ReviewSpace", problem: Problem) -> None:
    from grader.practice.review import summary

    click.echo()
    for line in summary(space.memory(problem), space, problem):
        terminal.echo(line)
    terminal.echo(f"To correct the rating: `grade review {problem.label} --rate good`.")


def _list(home: workspace.Workspace) -> None:
    """Prints the due reviews, the next dates, and the calendar."""
    from grader.course.log import now
    from grader.practice import reminders, schedule

    entries = home.entries()
    known = {name: memory for name, memory in schedule.memories(entries).items() if name in catalog.names()}
    today = now().date()
    for memory in sorted(known.values(), key=lambda memory: (memory.due, memory.problem)):
        problem = catalog.load(memory.problem)
        when = "due" if memory.due <= today else f"{memory.due:%a, %b} {memory.due.day}"
        times = counted(len(memory.reviews) - 1, "review") if len(memory.reviews) > 1 else "not reviewed yet"
        click.echo(f"  {problem.label}  {problem.title:40}  {when:11}  {times}")
    if not known:
        terminal.echo("You have not passed a problem yet, so there is nothing to review. `grade next` suggests one.")
    click.echo()
    for line in reminders.calendar_text(entries, terminal.width()):
        click.echo(line)


def _nothing_due(home: workspace.Workspace) -> str:
    from grader.practice import schedule

    known = [memory for name, memory in schedule.memories(home.entries()).items() if name in catalog.names()]
    if not known:
        return "You have not passed a problem yet, so there is nothing to review. `grade next` suggests one."
    soonest = min(known, key=lambda memory: memory.due)
    problem = catalog.load(soonest.problem)
    return (
        f"Nothing is due today. Next: problem {problem.label} on {_day(soonest.due)}. `grade review NN` reviews any "
        "problem that you have passed."
    )


def _day(day: date) -> str:
    return f"{day:%A, %B} {day.day}"


@click.command("test-out")
@click.argument("word", metavar="NN")
@click.pass_obj
def test_out(folder: str | None, word: str) -> None:
    """Pass problem NN by its core alone, if you know it already.

    Your file becomes the reference without its core, a few lines. Write them, and grade it as always. A pass opens what
    builds on the problem; it counts no records. `grade reset NN` goes back to the whole.
    """
    from grader.practice import by_core

    problem = catalog.find(word)
    space = workspace.find(folder)
    begun = by_core.begin(space, problem)
    if begun.kept:
        terminal.echo(f"kept  {begun.kept}")
    terminal.echo(f"new   {space.file(problem)}")
    terminal.echo(
        f"It is the reference without its core. Write the {counted(begun.lines, 'line')} that are missing, and grade "
        f"with `grade problem {problem.label}`. `grade reset {problem.label}` goes back to the whole."
    )


COMMANDS = [review, test_out]
