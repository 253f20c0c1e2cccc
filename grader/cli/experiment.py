"""`grade claim`, and the part of `grade task` that is about experiments."""

import json
from typing import TYPE_CHECKING

import click

from commandline import files, terminal
from commandline.errors import UsageError
from commandline.progress import working
from commandline.text import counted
from grader.course import tasks, workspace
from grader.course.workspace import Workspace
from grader.task import Experiment

if TYPE_CHECKING:
    from grader.experiment.arms import Lab
    from grader.experiment.judging import Bench, Score


@click.command()
@click.argument("word", metavar="NAME")
@click.pass_obj
def claim(folder: str | None, word: str) -> None:
    """Claim what you expect of an experiment, before any run.

    It checks `claim.toml` in the folder of the experiment and notes it in your log. The seeds of the runs follow from
    it, so only runs that come after it count. Flaws of the design are named: you may still change it and claim again.
    """
    from grader.experiment.claim import flaws
    from grader.experiment.judging import Bench

    task = tasks.find(word)
    if not isinstance(task, Experiment):
        raise UsageError(f"{task.label} is no experiment, so there is nothing to claim.")
    bench = Bench(workspace.find(folder), task)
    made = bench.claim()
    number = sum(1 for _ in bench.entries("claimed"))
    terminal.echo(f"Claim {number} of {task.title}: {made.digest[:8]}. {bench.factor.question}")
    for flaw in flaws(made):
        terminal.echo(f"  flaw  {flaw}", indent=8)
    terminal.echo(
        f"Seeds: {', '.join(str(made.seed(each)) for each in range(made.seeds))}. `grade task {task.label}` trains the "
        "runs. You can stop it at any time; the next call continues."
    )


def experiment(space: Workspace, task: Experiment, *, secret: int, as_json: bool) -> int:
    """Does what comes next in an experiment: writes its folder, trains the runs of its claim, or scores its report.
    Returns the exit code: 0 if the score is in a class, and 1 before that."""
    from grader.experiment.arms import Lab
    from grader.experiment.claim import CLAIM
    from grader.experiment.judging import Bench
    from grader.experiment.report_file import verdict_in

    bench = Bench(space, task)
    if new := _begin(bench):
        for path in new:
            click.echo(f"new   {path}", err=as_json)
        terminal.echo(
            f"{bench.factor.question} Read `grade show {task.label}`, fill in {CLAIM}, then `grade claim "
            f"{task.label}`.",
            err=as_json,
        )
        return 1
    made = bench.claimed()
    if made is None:
        raise UsageError(f"Fill in {bench.folder / CLAIM}, then `grade claim {task.label}`: the claim comes first.")
    lab = Lab.within(bench.folder, task, bench.factor, made)
    if not lab.is_whole():
        with working(f"training for {task.title}", lines=True) as say:
            lab.run_all(say)
    if not verdict_in(bench.report()):
        _say_runs(bench, lab, as_json=as_json)
        return 1
    with working(f"judging {task.title}", lines=True) as say:
        score = bench.judge(lab, secret, say)
    _say_score(bench, score, as_json=as_json)
    if score.value is None:
        return 1
    space.record(tasks.SCORED, task.label, score=max(score.value, 1), digest=made.digest)
    return 0 if task.standard(score.value) else 1


def _begin(bench: "Bench") -> list[str]:
    """Writes the files that a learner fills in. Returns their paths; none if they are there."""
    from grader.experiment.claim import CLAIM, REPORT

    bench.folder.mkdir(parents=True, exist_ok=True)  # without a workspace, no log would note the factor
    factor, new = bench.factor, []
    for name in (CLAIM, REPORT):
        path = bench.folder / name
        if not path.exists():
            text = (bench.task.folder / name).read_text(encoding="utf-8")
            for key, value in {
                "factor": factor.name,
                "baseline": factor.baseline,
                "new": factor.others[0],
                "others": " or ".join(f'"{each}"' for each in factor.others),
                "question": factor.question,
            }.items():
                text = text.replace(f"<{key}>", value)
            files.write(path, text)
            new.append(str(path))
    return new


def _say_runs(bench: "Bench", lab: "Lab", *, as_json: bool) -> None:
    from grader.experiment.claim import REPORT
    from grader.experiment.judging import table

    rows = table(lab)
    if as_json:
        click.echo(json.dumps({"schema": 1, "task": bench.task.label, "validation": dict(rows)}))
        return
    terminal.echo("Validation loss, in nats per token:")
    for name, loss in rows:
        click.echo(f"  {name:28} {loss}")
    terminal.echo(
        f"All runs are done. Write {bench.folder / REPORT} with a verdict, then `grade task {bench.task.label}` opens "
        "the test stories and scores it."
    )


def _say_score(bench: "Bench", score: "Score", *, as_json: bool) -> None:
    from grader.experiment.judging import FILLED, FLAW

    task, value = bench.task, score.value
    standard = "" if value is None else task.standard(value)
    if as_json:
        known = {"schema": 1, "task": task.label, "score": value, "class": standard or None}
        parts = {"width": score.width, "miss": score.miss, "flaws": list(score.flaws), "truth": score.truth}
        click.echo(json.dumps({**known, "error": score.refused or None, **parts}, ensure_ascii=False))
        return
    if value is None:
        terminal.echo(f"{task.title}: no score. {score.refused}")
        return
    terminal.echo(f"{task.title}: {value} {task.unit}, {standard or 'in no class'}")
    terminal.echo(f"  {score.width:5}  the width of your interval, in thousandths of a nat", indent=9)
    missed = "it holds the difference" if not score.miss else "the difference lies outside of it, ten times as far"
    terminal.echo(f"  {score.miss:5}  {missed}: {score.truth:+.4f} with seeds that nobody knew", indent=9)
    for flaw in score.flaws:
        terminal.echo(f"  {FLAW:5}  {flaw}", indent=9)
    claims = counted(sum(1 for _ in bench.entries("claimed")), "claim")
    terminal.echo(f"You have made {claims} here. The report with its numbers: {bench.folder / FILLED}")


COMMANDS = (claim,)
