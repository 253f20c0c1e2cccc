"""Whether a task with runs that went wrong is sound: each cause shows, the right diagnosis is in a class, and what
cheats is not."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import forms
from grader.course.findings import Finding, finding, of_page, of_refusal, solution
from grader.course.workspace import Workspace
from grader.diagnosis import judging
from grader.diagnosis.case import Case, begin, cause_of
from grader.diagnosis.form import FORM, Filed, number_in, read
from grader.isolation.sandbox import Workers
from grader.task import Diagnosis

OFF = 30  # steps by which a careless diagnosis misses the beginning
VISIBLE = 0.1  # of the larger number: so far apart are the run as it is and the run without the cause


def verify(task: Diagnosis, _: Workers) -> Iterator[Finding]:
    """Yields what was found, in order, for the page and each cause. Trains for minutes. Raises CourseError and
    UsageError."""
    words = (FORM, *(each.name for each in task.causes), *task.changes)
    yield of_page(task, "the form, the causes and the changes", words)
    for name in task.drawn:
        with tempfile.TemporaryDirectory() as scratch:
            yield from _of_cause(Workspace(Path(scratch)), task, name)


def _of_cause(space: Workspace, task: Diagnosis, name: str) -> Iterator[Finding]:
    path = solution(task, f"{name}.toml")
    seed = forms.read(path, task).whole("seed", 0, 1 << 31)
    case, _ = begin(space, task, seed).make()
    files.write(case.folder / FORM, path.read_text(encoding="utf-8").replace(f"seed = {seed}\n", ""))
    filed = read(case.folder / FORM, task)
    if filed is None or {filed.cause, cause_of(task, seed).name} != {name}:
        raise UsageError(f"{path}: `cause` or `seed` is that of another cause.")
    number = number_in(case.lines()[filed.at], filed)
    score = judging.score(case, filed, number)
    value, truth = score.value or 0, float(score.facts["is"])
    shown = f"{name}, {filed.quantity} at step {filed.at}: {number:.4g} in the run as it is, and {truth:.4g} with "
    shows = abs(truth - number) >= VISIBLE * max(abs(truth), abs(number))
    yield finding(f"{shown}{filed.change}", sound=shows)
    reached = task.standard(value)
    told = f"{name}, the right diagnosis: {value} {task.unit}, {reached or 'in no class'}"
    yield finding(told, sound=bool(reached))
    yield from _cheats(case, filed, number, truth)


def _cheats(case: Case, filed: Filed, number: float, truth: float) -> Iterator[Finding]:
    """Yields what becomes of carelessness, of guessing, of intervals that say nothing, and of edited figures."""
    name, task = case.cause.name, case.task
    careless = judging.WRONG + judging.STEP * (OFF - judging.NEAR)
    reached = task.standard(careless)
    told = f"{name}, a wrong cause first, and a step {OFF} off: {careless} {task.unit}, {reached or 'in no class'}"
    yield finding(told, sound=reached in ("", task.standards[0].name))
    wrong = case
    for other in (each.name for each in task.causes if each.name != name):
        wrong = wrong.file(replace(filed, cause=other))
    guessed = judging.WRONG * wrong.wrong
    far = 1e6 * max(abs(number), abs(truth))
    wide = (number + 1e-9 * far, far) if truth > number else (-far, number - 1e-9 * far)
    costs = {
        "every other cause first": guessed,
        "an interval that holds everything else": judging.prediction_cost(wide, number, truth),
    }
    for what, cost in costs.items():
        reached = task.standard(cost)
        yield finding(f"{name}, {what}: {cost} {task.unit}, {reached or 'in no class'}", sound=not reached)
    everything = replace(filed, interval=(-far, far))
    yield of_refusal(f"{name}, an interval with the run's own number", lambda: _tried(case, everything))
    if filed.step > 1:
        yield of_refusal(f"{name}, a step before the cause", lambda: _early(case, filed))
    path = case.run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    files.write(path, "".join(json.dumps({**line, "loss": line["loss"] - 0.5}) + "\n" for line in lines))
    yield of_refusal(f"{name}, edited figures", lambda: _tried(case, filed))


def _tried(case: Case, filed: Filed) -> None:
    number_in(case.lines()[filed.at], filed)


def _early(case: Case, filed: Filed) -> None:
    """Reads the diagnosis with a prediction of a step at which nothing is wrong yet."""
    path = case.folder / FORM
    text = path.read_text(encoding="utf-8")
    files.write(path, text.replace(f"step = {filed.at}\ninterval", f"step = {filed.step - 1}\ninterval"))
    read(path, case.task)
