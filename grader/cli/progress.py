"""The commands of `grade` about a learner's progress: list, next, reset, certificate."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.files import write
from commandline.invocation import is_in_notebook
from commandline.text import counted
from grader.course import catalog, log, paths, tasks, workspace
from grader.problem import Problem
from grader.task import Task

READY_TO_HUNT = 3  # passed problems, before which a hunt has little to choose from
SCHEMA = 1  # of `grade list --json`: an incompatible change increases it


@click.command(name="list")
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@click.pass_obj
def list_(folder: str | None, words: tuple[str, ...], as_json: bool) -> None:
    """Show the problems by part, with points and your progress.

    The open tasks of a part come after its problems. With WORDS, only what matches all of them: in its number, title,
    part or state.
    """
    space = workspace.find(folder)
    progress = space.progress()
    standings = space.standings()
    shown = [problem for problem in catalog.problems() if _matches(problem, standings[problem.name].state, words)]
    entries = space.entries()
    best_of = {task: tasks.best(task, entries) for task in tasks.tasks() if _matches(task, "open task", words)}
    if not shown and not best_of:
        raise UsageError(f"No problem matches {' '.join(words)!r}. `grade list` shows all of them.")
    if as_json:
        rows = [_row(problem, standings[problem.name], space.file(problem)) for problem in shown]
        open_tasks = [_task_row(task, best_of[task], space.file(task) if task.entries else None) for task in best_of]
        click.echo(json.dumps({"schema": SCHEMA, "problems": rows, "tasks": open_tasks}, ensure_ascii=False))
        return
    part = ""
    for each in _in_order(shown, best_of):
        if tasks.part_of(each) != part:
            click.echo(f"\n{tasks.part_of(each)}" if part else tasks.part_of(each))
            part = tasks.part_of(each)
        if isinstance(each, Task):
            lines = _task_lines(each, best_of[each])
        else:
            lines = _problem_lines(each, space, standings[each.name], progress.get(each.name, log.Progress()))
        click.echo("\n".join(lines))
    if shown:
        for name, reason in catalog.unreadable().items():
            terminal.echo(f"  {name.label}  cannot be read: {reason}", indent=6)
        _say_points(shown, standings, progress)
        _say_path(space)
        _say_due(space)


def _in_order(problems: Sequence[Problem], open_tasks: Iterable[Task]) -> list[Problem]:
    """Returns problems and tasks by part, the tasks of a part after its problems."""
    parts = list(dict.fromkeys(map(tasks.part_of, catalog.problems())))
    return sorted([*problems, *open_tasks], key=lambda each: parts.index(tasks.part_of(each)))


def _problem_lines(
    problem: Problem, space: workspace.Workspace, standing: workspace.Standing, row: log.Progress
) -> list[str]:
    """Returns the lines of a problem: its points, and its state or how long it takes."""
    state, points = standing.state, standing.points
    if row.score > points:
        state = f"{state} (best {row.score})"
    if why := space.why_changed(problem) if state == workspace.CHANGED else "":
        state = f"{state}: {why}"
    if row.stages and points < problem.points:
        state = f"{state}, {row.stages} of {counted(len(problem.stages), 'stage')} passed"
    if not state and problem.minutes:
        state = f"about {problem.minutes} minutes"
    return _on_a_line(f"  {problem.label}  {problem.title:40} {points:2} of {problem.points:2}", state)


def _say_points(
    shown: Iterable[Problem], standings: Mapping[str, workspace.Standing], progress: Mapping[str, log.Progress]
) -> None:
    """Prints the points of the problems shown, and the commands that come next."""
    names, possible = [problem.name for problem in shown], sum(problem.points for problem in shown)
    total = sum(standings[name].points for name in names)
    most = sum(progress[name].score for name in names if name in progress)
    how = "`grade show NN` prints a page, `grade problem NN` grades your file."
    if is_in_notebook():
        how = "`%page NN` shows a page, `%%grade NN` grades the cell below it."
    click.echo()
    terminal.echo(f"{total} of {possible} points{f', {most} at best' if most > total else ''}. {how}")


def _task_lines(task: Task, best: tasks.Best | None) -> list[str]:
    """Returns the lines of an open task, with the class and the score of the learner's best program."""
    state = f"{best.standard or 'in no class'}, {best.score:,}" if best else ""
    return _on_a_line(f"  --  {task.title:40} open task {task.label}", state)


def _on_a_line(row: str, state: str) -> list[str]:
    """Returns both in one line if it fits into the terminal, otherwise in two."""
    fits = len(row) + 2 + len(state) <= terminal.width()
    return [f"{row}  {state}".rstrip()] if fits else [row, f"      {state}"]


def _task_row(task: Task, best: tasks.Best | None, file: Path | None) -> dict[str, Any]:
    """Returns an open task as other programs read it, with the learner's best score and class, or null. One in which
    nothing is programmed has no file."""
    return {
        "name": task.label,
        "title": task.title,
        "part": tasks.part_of(task),
        "unit": task.unit,
        "best": best.score if best else None,
        "class": best.standard or None if best else None,
        "file": str(file.absolute()) if file else None,
    }


def _row(problem: Any, standing: workspace.Standing, file: Path) -> dict[str, Any]:
    """Returns a problem as other programs read it, with the learner's state and points."""
    return {
        "name": problem.name,
        "label": problem.label,
        "title": problem.title,
        "part": catalog.part_of(problem),
        "points": standing.points,
        "possible": problem.points,
        "state": standing.state,
        "passed": standing.passed,
        "file": str(file.absolute()),
    }


def _say_path(space: workspace.Workspace) -> None:
    """Prints how far the learner is on the path that was chosen."""
    path = space.path
    if path.name != paths.EVERYTHING:
        done = path.done(name for name, standing in space.standings().items() if standing.passed)
        terminal.echo(f"Your path: {path.title}, {done} of {counted(len(path.problems), 'problem')} passed.")
        if done == len(path.problems):
            terminal.echo(f"You have come to its end. {path.then} `grade path` shows the others.")
    _say_training(space)


def _say_training(space: workspace.Workspace) -> None:
    """Prints how the best run of the learner's pieces stands; before there is one, what the learner has reached."""
    from grader.report import own_run

    if run := own_run.best(Path("runs")):
        terminal.echo(
            f"{run.standing} `harness sample {run.name}` tells a story, and `harness resume {run.name}` resumes it."
        )
        return
    if reached := space.reached():
        terminal.echo(reached)


def _say_due(space: workspace.Workspace) -> None:
    """Prints the number of due reviews. Computing dates takes a moment, so nothing is imported before a problem was
    passed."""
    if any(row.verdict == "PASS" for row in space.progress().values()):
        from grader.practice import reminders

        if text := reminders.due_text(space):
            terminal.echo(text)


def _matches(problem: Any, state: str, words: tuple[str, ...]) -> bool:
    text = " ".join([problem.label, problem.title, problem.name, tasks.part_of(problem), state]).lower()
    return all(word.lower() in text for word in words)


def welcome(space: workspace.Workspace) -> None:
    """Prints where a learner stands, and what comes next: what somebody who comes back wants to know."""
    standings = space.standings()
    passed = [name for name, standing in standings.items() if standing.passed]
    points = sum(standing.points for standing in standings.values())
    left = {catalog.part_of(each) for each in catalog.problems() if not standings[each.name].passed}
    whole = {catalog.part_of(each) for each in catalog.problems()} - left
    parts = f", {counted(len(whole), 'part')} done" if whole else ""
    terminal.echo(
        f"Welcome back. {len(passed)} of {len(standings)} problems passed, {counted(points, 'point')}{parts}."
    )
    _say_path(space)
    _say_due(space)
    if following := space.next_problem():
        begun = space.progress().get(following.name, log.Progress()).attempted
        minutes = f" (about {following.minutes} minutes)" if following.minutes and not begun else ""
        verb = "Go on with" if begun else "Next:"
        terminal.echo(f"{verb} {following.label} {following.title}{minutes}: `grade show {following.label}`.")
    _say_hunts(space)
    terminal.echo("`grade --help` lists all commands.")


def first_step(space: workspace.Workspace, first: Problem) -> None:
    """Welcomes a learner who has not tried anything yet, and prints how the first problem is solved."""
    time = f", about {first.minutes} minutes" if first.minutes else ""
    terminal.echo(f"Welcome. Your first problem is {first.label} {first.title}{time}.")
    terminal.echo(
        f"Read its page with `grade show {first.label}`, fill in {space.file(first)}, then grade it with "
        f"`grade problem {first.label}`."
    )
    terminal.echo("`grade path` lists the paths through the course, and `grade --help` all commands.")


def _say_hunts(space: workspace.Workspace) -> None:
    """Suggests a first hunt to a learner who has passed enough problems for one.

    The log is read first: whether a pass still holds depends on the text of each file.
    """
    if any(entry.kind.startswith("hunt") for entry in space.entries()):
        return
    if sum(standing.passed for standing in space.standings().values()) >= READY_TO_HUNT:
        terminal.echo("You can read code for its faults now: `grade hunt` puts one into a program like yours.")


@click.command(name="next")
@click.pass_obj
def next_(folder: str | None) -> None:
    """Suggest the next problem, and say why."""
    space = workspace.find(folder)
    _say_due(space)
    _say_path(space)
    problem = space.next_problem()
    if problem is None:
        terminal.echo("You have passed every problem of the course. `grade certificate` writes a record of it.")
        return
    _say_hunts(space)
    time = f" It takes about {problem.minutes} minutes." if problem.minutes else ""
    terminal.echo(f"Next: problem {problem.label}, {problem.title}, in “{catalog.part_of(problem)}”.{time}")
    _say_standing(space, problem)
    if instead := space.instead_of(problem):
        terminal.echo(f"This part is optional: you can start with problem {instead.label} instead.")
    _say_neighbors(space, problem)
    label = problem.label
    if is_in_notebook():
        terminal.echo(f"Read `%page {label}`, write your code in a cell, grade it with `%%grade {label}` above it.")
        return
    terminal.echo(
        f"Read `grade show {label}`, write your solution in {space.file(problem)}, grade it with `grade problem "
        f"{label}`."
    )


def _say_standing(space: workspace.Workspace, problem: Problem) -> None:
    """Prints how far the learner came with a problem, and which one teaches what went wrong there."""
    row, standing = space.progress().get(problem.name, log.Progress()), space.standing(problem)
    if row.verdict == "PASS":
        terminal.echo(
            f"You passed it before, and it is {standing.state} now: {standing.points} of {problem.points} points."
        )
    elif row.attempted:
        stages = f", and {row.stages} of {len(problem.stages)} stages passed" if row.stages else ""
        terminal.echo(f"You have started it: {row.score} of {problem.points} points{stages}.")
    if (basics := catalog.explained_by(problem, row.mistakes)) and not space.standing(basics).passed:
        terminal.echo(f"Problem {basics.label}, {basics.title}, teaches what your mistakes there have in common.")


def _say_neighbors(space: workspace.Workspace, problem: Problem) -> None:
    """Prints which problems this one builds on, and which on the learner's path build on it."""
    before, after = catalog.builds_on(problem), catalog.needed_for(problem)
    way = space.path.problems if problem in space.path.problems else catalog.problems()
    left_out = [each for each in before if each not in way and not space.standing(each).passed]
    if on_way := [each for each in before if each not in left_out]:
        terminal.echo(f"It builds on {_titles(on_way)}.")
    if left_out:
        terminal.echo(
            f"Your path leaves out {_titles(left_out)}: `grade show {left_out[0].label}` explains what it uses."
        )
    if needed := [each for each in after if each in way]:
        terminal.echo(f"{_titles(needed)} {'builds' if len(needed) == 1 else 'build'} on it.")


def _titles(problems: list[Any]) -> str:
    return ", ".join(f"{problem.label} {problem.title}" for problem in problems)


@click.command(name="path")
@click.argument("name", required=False)
@click.pass_obj
def path_(folder: str | None, name: str | None) -> None:
    """Show the paths through the course, or choose one.

    `grade next` follows the path of your choice, which you can change at any time. The hours are estimates.
    """
    space = workspace.find(folder)
    if name:
        chosen = paths.find(name)
        space.choose_path(chosen)
        hours = f"It takes {chosen.hours}. " if chosen.hours else ""
        terminal.echo(f"Your path is now: {chosen.title}. {hours}{chosen.then}")
        terminal.echo(f"{_way(chosen, space)}`grade next` follows it.")
        return
    now, passed = space.path, [each for each, standing in space.standings().items() if standing.passed]
    for path in paths.every():
        mark = "*" if path.name == now.name else " "
        title = click.style(path.title, bold=True)
        hours = f", {path.hours}" if path.hours else ""
        click.echo(f"{mark} {path.name:10} {title}: {path.done(passed)} of {len(path.problems)} passed{hours}")
        if path.then:
            terminal.echo(f"{'':13}{path.then}", indent=13)
            if path.name == now.name and (way := _way(path, space)):
                terminal.echo(f"{'':13}{way.strip()}", indent=13)
    terminal.echo("`grade path NAME` chooses one.")


def _way(path: paths.CoursePath, space: workspace.Workspace) -> str:
    """Returns a sentence on which problems of a path are left, in its order; empty for the whole course, which
    `grade list` shows."""
    standings = space.standings()
    left = [problem.label for problem in path.problems if not standings[problem.name].passed]
    return f"Its problems that are left, in order: {' '.join(left)}. " if left and path.then else ""


@click.command()
@click.argument("word", metavar="NN")
@click.pass_obj
def reset(folder: str | None, word: str) -> None:
    """Start problem NN again from its stub.

    Your file is kept beside it, under a name with a number.
    """
    problem = catalog.find(word)
    space = workspace.find(folder)
    if kept := space.reset(problem):
        terminal.echo(f"kept  {kept}")
        terminal.echo(f"new   {space.file(problem)}")
    else:
        terminal.echo(f"{space.file(problem)} is the stub.")


@click.command()
@click.option("--name", help="Your name, as the certificate shows it.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write [default: certificate.html in your workspace]."
)
@click.option(
    "--runs", type=click.Path(path_type=Path, file_okay=False), default="runs", show_default=True,
    help="Directory of your training runs.",
)  # fmt: skip
@click.option("--png", "pictured", is_flag=True, help="Also draw its first part as a picture, with Chrome or Chromium.")
@click.pass_obj
def certificate(folder: str | None, name: str | None, out: Path | None, runs: Path, pictured: bool) -> None:
    """Write a page of what you built, and of what you passed.

    The page is for showing to others; `grade list` shows your progress to you. It begins with what you built, a text by
    the best run that is made of your pieces, and your records. The table of what you passed, when, and with which
    versions comes last. It is your own record of your work, and says so.
    """
    from grader.report import certificate as certificate_
    from grader.report import own_run, screenshot

    space = workspace.find(folder)
    out = out or space.folder / "certificate.html"
    picture = out.with_suffix(".png")
    browser = screenshot.find_browser() if pictured else ""
    for path in (out, picture) if pictured else (out,):
        if path.exists() and not certificate_.is_certificate(path):
            raise UsageError(f"{path} exists and is not a certificate; name another file with --out.")
    told = (space, name or "", own_run.best(runs), list(_records(space)))
    write(out, certificate_.render(*told))
    terminal.echo(f"new   {out}")
    if pictured:
        drawn = screenshot.png(browser, certificate_.render(*told, short=True), picture.parent)
        write(picture, certificate_.marked(drawn))
        terminal.echo(f"new   {picture}")


def _records(space: workspace.Workspace) -> Iterator[str]:
    """Yields a sentence for each open task with a class, and for each problem with a record of work or memory."""
    from grader.cost import records
    from grader.cost.figures import PEAK, WORK

    entries = space.entries()
    for task in tasks.tasks():
        if (best := tasks.best(task, entries)) and best.standard:
            yield f"{task.title}: {best.standard}, with {best.score:,} {task.unit}."
    for problem in catalog.problems():
        lowest = records.best(records.counted(entries, problem))
        figures = [
            f"{lowest[each.name].figures[each.name]:,} {each.unit} ({each.title})"
            for each in (WORK, PEAK)
            if each.name in lowest
        ]
        if figures:
            yield f"{problem.label} {problem.title}: {', '.join(figures)}."


COMMANDS = (list_, next_, path_, reset, certificate)
