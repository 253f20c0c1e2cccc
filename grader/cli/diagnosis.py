"""The part of `grade task` that is about runs that went wrong."""

import json
from typing import TYPE_CHECKING

import click

from commandline import terminal
from commandline.errors import UsageError
from commandline.progress import working
from commandline.text import counted
from grader.course import log, tasks
from grader.course.workspace import Workspace
from grader.task import Diagnosis

if TYPE_CHECKING:
    from grader.diagnosis.case import Case
    from grader.diagnosis.form import Filed
    from grader.diagnosis.judging import Score


def diagnosis(space: Workspace, task: Diagnosis, *, give_up: bool, as_json: bool) -> int:
    """Does what comes next with a run that went wrong: makes its folder, or puts a diagnosis to the test. With
    `give_up`, ends it and tells the cause. Returns the exit code: 0 if the score is in a class, and 1 before that."""
    from grader.diagnosis.case import draw, under_way
    from grader.diagnosis.form import FORM, read

    case = under_way(space, task)
    if give_up:
        if case is None:
            raise UsageError(f"No run is under way. `grade task {task.label}` makes one.")
        _end(case, missed=True)
        _tell(case, as_json=as_json)
        return 1
    case = case or draw(space, task)
    with working(f"training for {task.title}"):
        new = case.make()
    filed = case.right or read(case.folder / FORM, task)
    if filed is None:
        for path in new:
            click.echo(f"new   {path}", err=as_json)
        terminal.echo(
            f"The run in {case.run} went wrong. Find out why: read `grade show {task.label}`, fill in "
            f"{case.folder / FORM}, then `grade task {task.label}` puts your diagnosis to the test.",
            err=as_json,
        )
        return 1
    return _judge(case, filed, as_json=as_json)


def _judge(case: "Case", filed: "Filed", *, as_json: bool) -> int:
    """Files a diagnosis, runs its prediction, and reports what came out."""
    from grader.diagnosis import judging
    from grader.diagnosis.form import MEND, number_in

    number = number_in(case.lines()[filed.at], filed)
    case = case.file(filed)
    if filed.cause != case.cause.name:
        truth = number
        if filed.change != MEND:
            with working(f"training with {filed.change}"):
                _, truth = case.tested(filed)
        _say_wrong(case, filed, number, truth, as_json=as_json)
        return 1
    with working("training the run that you predict"):
        score = judging.score(case, filed, number)
    _end(case, missed=case.wrong > 0, score=score)
    _say_score(case, filed, score, as_json=as_json)
    return 0 if case.task.standard(score.value) else 1


def _end(case: "Case", *, missed: bool, score: "Score | None" = None) -> None:
    """Notes the end of a run and its score in one go, so that no run is scored twice."""
    from grader.diagnosis.case import ENDED

    label = case.task.label
    entries = [log.entry(ENDED, label, **case.facts(missed=missed))]
    if score:
        entries.append(log.entry(tasks.SCORED, label, score=max(score.value, 1), seed=case.seed))
    case.space.note(*entries)


def _say_wrong(case: "Case", filed: "Filed", number: float, truth: float, *, as_json: bool) -> None:
    from grader.diagnosis.form import MEND
    from grader.diagnosis.judging import WRONG

    low, high = filed.interval
    holds = low <= truth <= high
    if as_json:
        _dump(case, filed, number, truth, score=None, error="the cause is another one")
        return
    if filed.change == MEND:
        told = f"Without {filed.cause}, the run is what it was: {filed.quantity} at step {filed.at} stays {number:.4g}."
    else:
        told = (
            f"With {filed.change}, {filed.quantity} at step {filed.at} is {truth:.4g}, which your interval "
            f"{'holds' if holds else 'does not hold'}."
        )
    terminal.echo(f"No score yet. {told} The cause is another one than {filed.cause}.")
    terminal.echo(
        f"You have named {counted(case.wrong, 'wrong cause')}, each of which costs {WRONG}. Change the diagnosis and "
        f"`grade task {case.task.label}` again, or add `--give-up` to see the cause."
    )


def _say_score(case: "Case", filed: "Filed", score: "Score", *, as_json: bool) -> None:
    from grader.diagnosis.judging import WRONG

    task = case.task
    standard = task.standard(score.value)
    if as_json:
        parts = {"wrong": score.wrong, "late": score.late, "prediction": score.prediction, "begins": score.begins}
        _dump(case, filed, score.number, score.truth, score=score.value, error=None, **parts)
        return
    terminal.echo(f"{task.title}: {score.value} {task.unit}, {standard or 'in no class'}")
    low, high = filed.interval
    rows = (
        (WRONG * score.wrong, f"{counted(score.wrong, 'wrong cause')} before this one"),
        (score.late, f"you say that it begins at step {filed.step}; it begins at step {score.begins}"),
        (
            score.prediction,
            f"you predicted [{low:g}, {high:g}] for {filed.quantity} at step {filed.at} with {filed.change}; it is "
            f"{score.truth:.4g}, and was {score.number:.4g}",
        ),
    )
    for points, what in rows:
        terminal.echo(f"  {points:5}  {what}", indent=9)
    _tell(case, as_json=False)


def _tell(case: "Case", *, as_json: bool) -> None:
    """Tells the cause and how one sees it."""
    cause = case.cause
    if as_json:
        click.echo(json.dumps({"schema": 1, "task": case.task.label, "cause": cause.name}))
        return
    terminal.echo(f"The cause is {cause.name}: {cause.what}. {cause.sign}")
    terminal.echo(f"`grade task {case.task.label}` makes another run.")


def _dump(
    case: "Case", filed: "Filed", number: float, truth: float, *, score: int | None, error: str | None, **parts: int
) -> None:
    standard = None if score is None else case.task.standard(score) or None
    known = {"schema": 1, "task": case.task.label, "score": score, "class": standard, "error": error}
    click.echo(json.dumps({**known, "cause": filed.cause, "was": number, "is": truth, **parts}, ensure_ascii=False))
