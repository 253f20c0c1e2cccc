"""`grade task`: the score of a file for an open task."""

import sys
from contextlib import closing
from pathlib import Path

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.progress import working
from grader.course import tasks, workspace
from grader.task import Diagnosis, Experiment, Review


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
    from grader.course.seed import read_seed
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.judge import submission as submission_
    from grader.tasks import grading, report

    chosen, space = tasks.find(word), workspace.find(folder)
    if isinstance(chosen, Diagnosis | Experiment | Review):
        if file or quick:
            raise UsageError(f"{chosen.label} takes no file and has no --quick: it is a folder.")
        sys.exit(_next_step(space, chosen, seed_file, give_up=give_up, as_json=as_json))
    if give_up:
        raise UsageError(f"{chosen.label} is scored by a file; --give-up is for changes and runs.")
    if file is None and (new := space.add(chosen)):
        click.echo(f"new   {new}", err=as_json)
        terminal.echo(
            f"Read `grade show {chosen.label}`, then score the file with `grade task {chosen.label}`.", err=as_json
        )
        return
    path = file or space.file(chosen)
    secret = read_seed(seed_file) if seed_file else 0
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


def _next_step(
    space: workspace.Workspace,
    chosen: Diagnosis | Experiment | Review,
    seed_file: Path | None,
    *,
    give_up: bool,
    as_json: bool,
) -> int:
    """Does what comes next in a task without a program. Returns the exit code: 0 if the score is in a class."""
    from grader.course.seed import read_seed

    if isinstance(chosen, Experiment):
        from grader.cli.experiment import experiment

        if give_up:
            raise UsageError("An experiment has nothing to give up: its runs say what is true.")
        return experiment(space, chosen, secret=read_seed(seed_file) if seed_file else 0, as_json=as_json)
    if seed_file:
        raise UsageError(f"{chosen.label} has no --seed-file.")
    if isinstance(chosen, Diagnosis):
        from grader.cli.diagnosis import diagnosis

        return diagnosis(space, chosen, give_up=give_up, as_json=as_json)
    from grader.cli.change import review_change

    return review_change(space, chosen, give_up=give_up, as_json=as_json)


COMMANDS = (task,)
