"""`grade`: the command line. Thin: each command finds what it needs and prints what comes back."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from commandline.commands import Commands
from commandline.errors import CommandError, UsageError
from grader import course, teaching, workspace
from grader.workspace import Workspace


class Grade(Commands):
    """The commands of `grade`."""

    program = "grade"


@click.group(cls=Grade, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.option("--workspace", "folder", metavar="DIR", help="Your folder of attempts, if it is not the usual one.")
@click.version_option(package_name="gpt-kata", prog_name="grade")
@click.pass_context
def main(ctx: click.Context, folder: str | None) -> None:
    """Learn to build a GPT in JAX and Flax NNX, one graded problem at a time.

    \b
    Begin with     grade start
    read a page    grade show 07
    write it in    attempts/p07_next_token_loss.py
    and grade it   grade problem 07

    Exit status: 0 passed, 1 not passed, 2 asked wrongly, 3 our own fault.
    """
    ctx.obj = folder


@main.command()
@click.argument("directory", required=False)
@click.pass_obj
def start(folder: str | None, directory: str | None) -> None:
    """Make your workspace: a stub for every problem, and the pages.

    DIRECTORY is `attempts` unless you name another. Nothing of yours is ever overwritten; run it again after an update to
    get what is new.
    """
    space = Workspace(Path(directory)) if directory else workspace.find(folder)
    new = space.start()
    first = course.problems()[0]
    if not (space.folder / workspace.PROGRESS).exists():
        space.remember(first)
    if not new:
        click.echo(f"{space.folder} has everything already.")
    for path in new:
        click.echo(f"new  {path}")
    label = first.label
    click.echo(f"\nNext: read `grade show {label}`, fill in {space.file(first)}, grade with `grade problem {label}`.")


@main.command()
@click.argument("problem", metavar="NN")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
@click.option(
    "--format", "format_", type=click.Choice(teaching.FORMATS), help="Print the report as another system reads it."
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, metavar="N", help="Draw other cases.")
@click.option(
    "--seed-file",
    type=click.Path(path_type=Path),
    help="A file with a secret that decides the cases; they are not shown.",
)
@click.option(
    "--timeout", type=click.FloatRange(0, 86400, min_open=True), metavar="S", help="Seconds your code may take in all."
)
@click.pass_obj
def problem(
    folder: str | None,
    problem: str,
    file: Path | None,
    as_json: bool,
    format_: str | None,
    seed: int,
    seed_file: Path | None,
    timeout: float | None,
) -> None:
    """Grade your file for problem NN (7, 07, p07 or next_token_loss).

    FILE is the one in your workspace unless you name another; it is made from the stub if it is not there yet.
    """
    name: str | None = None
    machine = as_json or format_ is not None
    try:
        found = course.find(problem)
        name = found.name
        space = workspace.find(folder)
        if file is None:
            if space.add(found):
                click.echo(f"new  {space.file(found)}\n", err=machine)
            file = space.file(found)
        if seed_file:
            from grader import secret

            seed = secret.number(seed_file)
        report = _grade(found, file, seed, timeout)
    except CommandError as error:
        if as_json:
            from grader.report import json as report_json

            click.echo(report_json.dumps(report_json.refused(name, str(error))))
        raise
    if machine or seed_file:
        from grader.report import concealed, formats
        from grader.report import json as report_json

        told = report_json.as_object(report)
        told = concealed.concealed(told) if seed_file else told
        click.echo(formats.render([told], format_ or ("json" if machine else "text")), nl=False)
    else:
        from grader.report import terminal

        click.echo(terminal.render(report))
    if file.resolve() == space.file(found).resolve():
        try:
            space.remember(found, verdict=str(report.verdict), score=report.score)
        except UsageError as error:  # the verdict stands all the same
            click.echo(f"grade: your progress is not saved: {error}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is ended and written; taking the interpreter apart would only take time.
    os._exit(0 if report.verdict == "PASS" else 1)


def _grade(problem: Any, file: Path, seed: int, timeout: float | None) -> Any:
    from grader import recorded, submission

    recorded.check_gradable(problem)
    try:
        source = submission.read(problem, file)
    except submission.Unreadable as error:
        from grader import judge
        from grader.verdict import Verdict

        return judge.refused(problem, file.name, Verdict.ERROR, str(error))
    from grader import scratch
    from grader.sandbox import Zygote

    zygote = Zygote()  # its imports take longest: they start before the judge's own
    try:
        from grader import judge

        return judge.grade(
            problem, source, zygote, seed=seed, timeout=timeout, say=_say if problem.long_runs else _quiet
        )
    finally:
        zygote.close()
        scratch.leave()
        if problem.long_runs and sys.stderr.isatty():
            _say("")


def _say(text: str) -> None:
    """How far it is, for whoever waits: always in the same line of a terminal."""
    terminal = sys.stderr.isatty()
    click.echo(f"\r\x1b[2K{text}" if terminal else text, nl=not terminal, err=True)


def _quiet(text: str) -> None:
    """A verdict that is there in seconds needs no progress."""


@main.command(name="list")
@click.pass_obj
def list_(folder: str | None) -> None:
    """Show the problems by part, with points and your progress."""
    progress = workspace.find(folder).progress()
    part, score = "", 0
    everything = course.problems()
    for found in everything:
        if course.part_of(found) != part:
            part = course.part_of(found)
            click.echo(f"\n{part}" if found is not everything[0] else part)
        row = progress.get(found.name, {})
        mine = row.get("score", 0) if isinstance(row.get("score", 0), int) else 0
        score += mine
        state = {"PASS": "passed", None: ""}.get(row.get("verdict"), str(row.get("verdict")).lower())
        state = "given up" if row.get("given_up") and state != "passed" else state
        click.echo(f"  {found.label}  {found.title:44} {mine:2} of {found.points:2}  {state}".rstrip())
    total = sum(found.points for found in everything)
    click.echo(f"\n{score} of {total} points. `grade show NN` is the page, `grade problem NN` grades.")


@main.command(name="next")
@click.pass_obj
def next_(folder: str | None) -> None:
    """Say what to do next, and why."""
    space = workspace.find(folder)
    progress = space.progress()
    done = [found for found in course.problems() if progress.get(found.name, {}).get("verdict") == "PASS"]
    found = next((found for found in course.problems() if found not in done), None)
    if found is None:
        click.echo("You have passed every problem of the course.")
        return
    row = progress.get(found.name, {})
    click.echo(f"Next: problem {found.label}, {found.title} ({course.part_of(found)}).")
    if row.get("verdict") and row["verdict"] != "NOT ATTEMPTED":
        click.echo(f"You have begun it: {row.get('score', 0)} of {found.points} points.")
    if before := course.builds_on(found):
        click.echo(f"It builds on what you have passed: {_names(before)}.")
    if after := course.needed_for(found):
        click.echo(f"You will need it for {_names(after)}.")
    click.echo(
        f"`grade show {found.label}` is the page; {space.file(found)} is the file; `grade problem {found.label}` grades it."
    )


def _names(problems: list[Any]) -> str:
    return ", ".join(f"{found.label} {found.title}" for found in problems)


@main.command()
@click.argument("problem", metavar="NN")
def show(problem: str) -> None:
    """Read the page of problem NN."""
    from grader import page

    found = course.find(problem)
    _echo_markdown(page.without_hints(found))
    click.echo(
        f"\n{len(page.hints(found))} hints: `grade hint {found.label}`. Grade with `grade problem {found.label}`."
    )


def _echo_markdown(text: str) -> None:
    """Laid out for a person's terminal; as it is for a program."""
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text), width=min(console.width, 100))


@main.command()
@click.argument("problem", metavar="NN")
@click.option("--again", is_flag=True, help="Show the hints seen so far, and no new one.")
@click.pass_obj
def hint(folder: str | None, problem: str, again: bool) -> None:
    """Get the next hint for problem NN.

    The first is a nudge, the last nearly the answer.
    """
    from grader import page

    found = course.find(problem)
    space = workspace.find(folder)
    hints = page.hints(found)
    row = space.progress().get(found.name, {})
    seen = row.get("hints", 0) if isinstance(row.get("hints", 0), int) else 0
    count = seen if again else min(seen + 1, len(hints))
    if not count:
        click.echo("No hint seen yet.")
    for number, text in list(enumerate(hints, 1))[0 if again or seen >= len(hints) else count - 1 : count]:
        _echo_markdown(f"Hint {number} of {len(hints)}: {text}\n")
        click.echo()
    left = len(hints) - count
    more = (
        f"`grade hint {found.label}` shows the next."
        if left
        else f"`grade solution {found.label} --give-up` shows the answer."
    )
    click.echo(f"{left} hint{'' if left == 1 else 's'} left. {more}")
    if count > seen:
        space.folder.mkdir(parents=True, exist_ok=True)
        space.remember(found, hints=count)


@main.command()
@click.argument("problem", metavar="NN")
@click.option("--give-up", is_flag=True, help="Show it although you have not passed.")
@click.pass_obj
def solution(folder: str | None, problem: str, give_up: bool) -> None:
    """Read the reference of problem NN, once you have passed it."""
    found = course.find(problem)
    space = workspace.find(folder)
    passed = space.progress().get(found.name, {}).get("verdict") == "PASS"
    if not passed and not give_up:
        raise UsageError(
            f"Problem {found.label} is not passed yet. `grade hint {found.label}` helps; "
            f"`grade solution {found.label} --give-up` shows the answer all the same."
        )
    text = course.solution_path(found).read_text(encoding="utf-8")
    if not passed:
        space.remember(found, given_up=True)
    click.echo(text, nl=False)


@main.command()
@click.argument("problems", metavar="[NN ...]", nargs=-1)
@click.option("--jobs", type=click.IntRange(1, 64), help="Problems verified at a time [default: one a core].")
@click.option("--seeds", type=click.IntRange(0, 1000), default=20, show_default=True, help="Other seeds to try.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
def verify(problems: tuple[str, ...], jobs: int | None, seeds: int, as_json: bool) -> None:
    """For authors: is every problem sound?

    The stub must be NOT ATTEMPTED, the reference must pass, every misconception must be rejected and named as itself, the
    page must have its sections and true examples. With other seeds, the reference must pass and every misconception be
    rejected, too. Tolerances must have room on both sides. Exits 1 if anything falls short.
    """
    from grader import verify as verify_

    chosen = [course.find(word) for word in problems] or course.problems()
    rows = []
    for row in verify_.verify(chosen, jobs, seeds):
        rows.append(row)
        if not as_json:
            if len(rows) == 1:
                click.echo(verify_.HEADER)
            click.echo(row.line())
            for complaint in row.complaints:
                click.echo(f"      {complaint}")
    sound = all(not row.complaints for row in rows)
    if as_json:
        click.echo(json.dumps({"schema": 1, "sound": sound, "problems": [row.as_object() for row in rows]}))
    else:
        click.echo(verify_.margins_table(rows))
        short = sum(bool(row.complaints) for row in rows)
        click.echo(f"\n{len(rows)} problems, {'all sound' if sound else f'{short} fall short'}.")
    sys.exit(0 if sound else 1)


@main.command()
@click.pass_obj
def doctor(folder: str | None) -> None:
    """Look at this machine: versions, devices, isolation, folders."""
    from grader import doctor as doctor_

    fine = True
    for finding in doctor_.examine(workspace.find(folder)):
        click.echo(f"{'ok  ' if finding.fine else 'LOOK'}  {finding.subject:17} {finding.says}")
        if finding.remedy:
            click.echo(f"{'':24}{finding.remedy}")
        fine = fine and (finding.fine or not finding.serious)
    sys.exit(0 if fine else 1)


for command in teaching.COMMANDS:
    main.add_command(command)

if __name__ == "__main__":
    main()
