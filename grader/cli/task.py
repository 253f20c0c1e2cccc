"""`grade task`: what comes next in an open task, up to the score; `grade claim`, which comes first in an experiment."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.progress import working
from grader.course import tasks, workspace
from grader.course.seed import read_seed
from grader.task import Diagnosis, Experiment, Review, Task

if TYPE_CHECKING:
    from grader.course.scores import Told

_COLORS = {"+": "green", "-": "red", "@": "cyan"}  # of the lines of a diff


@click.command()
@click.argument("word", metavar="NAME")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Take one seed: a score without a class, in a third of the time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@click.option("--seed-file", type=click.Path(path_type=Path), help="File with a secret that the seeds also depend on.")
@click.option("--give-up", is_flag=True, help="End the change or the run that you look at, and see what was wrong.")
@click.pass_obj
def task(
    folder: str | None,
    word: str,
    file: Path | None,
    quick: bool,
    as_json: bool,
    seed_file: Path | None,
    give_up: bool,
) -> None:
    """Score your file for an open task.

    `grade list` shows the tasks, and `grade show NAME` prints the page of one. FILE is the one in your workspace unless
    you name another. If it does not exist there yet, it is created from the stub, and nothing is run. The same file
    always gets the same score. Exits 0 if the file is in a class, and 1 if it is in none.

    An experiment takes no FILE: it is a folder with a claim, runs and a report. The command does what comes next. So
    does it for a run that went wrong, which is a folder with the run and your diagnosis.

    A task in which you review a change takes no FILE. It draws a change and writes a folder with it. From then on, it
    judges the verdicts and tests that are new in the folder.
    """
    chosen, space = tasks.find(word), workspace.find(folder)
    secret = read_seed(seed_file) if seed_file else 0
    if isinstance(chosen, Diagnosis | Experiment | Review):
        if file or quick:
            raise UsageError(f"{chosen.label} takes no file and has no --quick: it is a folder.")
        if seed_file and not isinstance(chosen, Experiment):
            raise UsageError(f"{chosen.label} has no --seed-file.")
        with working(chosen.title, lines=True) as say:
            told = _step(space, chosen, secret, give_up=give_up, say=say)
        _print(chosen, told, as_json=as_json)
        sys.exit(0 if told.passed else 1)
    if give_up:
        raise UsageError(f"{chosen.label} is scored by a file; --give-up is for changes and runs.")
    _score_file(space, chosen, file, secret, quick=quick, as_json=as_json)


def _score_file(
    space: workspace.Workspace, chosen: Task, file: Path | None, secret: int, *, quick: bool, as_json: bool
) -> None:
    """Scores a file, or creates it from the stub. Exits."""
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.judge import submission as submission_
    from grader.tasks import grading, report

    if file is None and (new := space.add(chosen)):
        click.echo(f"new   {new}", err=as_json)
        terminal.echo(
            f"Read `grade show {chosen.label}`, then score the file with `grade task {chosen.label}`.", err=as_json
        )
        return
    path = file or space.file(chosen)
    try:
        submission = submission_.read(chosen, path)
    except submission_.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None
    # A fork server of its own: one that another command uses may have imported what makes data.
    with closing(ForkServer()) as server, working(f"running {chosen.title}", lines=True) as say:
        score = grading.grade(chosen, submission, server, secret=secret, quick=quick, say=say)
    scratch.leave()
    earlier = found.scores if (found := tasks.best(chosen, space.entries())) else ()
    click.echo(report.dumps(score) if as_json else report.render(score, terminal.width(), earlier))
    own = path.resolve() == space.file(chosen).resolve()
    if own and score.value is not None and len(score.runs) == score.of:
        space.record(tasks.SCORED, chosen.label, score=score.value, digest=space.digest(chosen))
    sys.exit(0 if score.standard else 1)


def _step(
    space: workspace.Workspace,
    chosen: Diagnosis | Experiment | Review,
    secret: int,
    *,
    give_up: bool,
    say: Callable[[str], None],
) -> "Told":
    """Does what comes next in a task that is a folder."""
    if isinstance(chosen, Experiment):
        from grader.experiment import judging as experiment

        return experiment.step(space, chosen, secret=secret, give_up=give_up, say=say)
    if isinstance(chosen, Diagnosis):
        from grader.diagnosis import judging as diagnosis

        return diagnosis.step(space, chosen, give_up=give_up, say=say)
    from grader.changes import reviewing
    from grader.isolation import scratch

    told = reviewing.step(space, chosen, give_up=give_up, say=say)
    scratch.leave()
    return told


def _print(chosen: Task, told: "Told", *, as_json: bool) -> None:
    """Prints what a step came to."""
    from grader.course.scores import Part, Verbatim

    if as_json:
        click.echo(json.dumps({"schema": 1, "task": chosen.label, **told.facts}, ensure_ascii=False))
        return
    for block in told.blocks:
        match block:
            case Part(points, what):
                terminal.echo(f"  {points:5}  {what}", indent=9)
            case Verbatim():
                for line in block.splitlines():
                    click.echo(click.style(line, fg=_COLORS.get(line[:1])))
            case _:
                terminal.echo(block)


@click.command()
@click.argument("word", metavar="NAME")
@click.pass_obj
def claim(folder: str | None, word: str) -> None:
    """Claim what you expect of an experiment, before any run.

    It checks `claim.toml` in the folder of the experiment and notes it in your log. The seeds of the runs are
    drawn then, so only runs that come after it count. Flaws of the design are named: you may still change it and claim
    again.
    """
    from grader.experiment.claim import flaws
    from grader.experiment.judging import Claimed

    chosen, space = tasks.find(word), workspace.find(folder)
    if not isinstance(chosen, Experiment):
        raise UsageError(f"{chosen.label} is no experiment, so there is nothing to claim.")
    lab = Claimed.make(space, chosen).lab
    made, number = lab.claim, len(Claimed.all(space, chosen))
    terminal.echo(f"Claim {number} of {chosen.title}: {made.digest[:8]}. {lab.factor.question}")
    for flaw in flaws(made):
        terminal.echo(f"  flaw  {flaw}", indent=8)
    terminal.echo(
        f"Seeds: {', '.join(str(lab.seed(each)) for each in range(made.seeds))}. `grade task {chosen.label}` trains "
        "the runs. You can stop it at any time; the next call continues."
    )


COMMANDS = (task, claim)
