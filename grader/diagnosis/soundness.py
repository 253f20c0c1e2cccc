"""Whether a task with runs that went wrong is sound: each cause shows, the right diagnosis is in a class, and what
cheats is not."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog
from grader.course.forms import table_of
from grader.course.workspace import Workspace
from grader.diagnosis import judging
from grader.diagnosis.case import Case, begin, cause_of
from grader.diagnosis.form import FORM, Filed, number_in, read
from grader.task import Cause, Diagnosis

OFF = 30  # steps by which a careless diagnosis misses the beginning
VISIBLE = 0.1  # of the larger number: so far apart are the run as it is and the run without the cause
Finding = tuple[str, str]  # what was found, and a complaint about it; empty if there is none


def verify(task: Diagnosis) -> Iterator[Finding]:
    """Yields what was found, in order, for the page and each cause. Trains for minutes. Raises CourseError."""
    page = catalog.page_text(task)
    words = [FORM, *(each.name for each in task.causes), *task.changes]
    missing = next((word for word in words if word not in page), "")
    yield "the page shows the form, the causes and the changes", missing and f"the page does not show {missing}"
    for name in task.drawn:
        path = task.home / "solutions" / task.label / f"{name}.toml"
        with tempfile.TemporaryDirectory() as scratch:
            yield from _of_cause(task, next(each for each in task.causes if each.name == name), path, Path(scratch))


def _of_cause(task: Diagnosis, cause: Cause, path: Path, scratch: Path) -> Iterator[Finding]:
    if not path.is_file():
        yield "", f"there is no {path}"
        return
    table = table_of(path, task)
    seed = table.pop("seed", None)
    if type(seed) is not int or cause_of(task, seed) != cause:
        yield "", f"{path}: `seed` is that of a run with another cause"
        return
    case = begin(Workspace(scratch), task, seed)
    case.make()
    files.write(case.folder / FORM, path.read_text(encoding="utf-8").replace(f"seed = {seed}\n", ""))
    filed = read(case.folder / FORM, task)
    if filed is None or filed.cause != cause.name:
        yield "", f"{path} names another cause"
        return
    number = number_in(case.lines()[filed.at], filed)
    score = judging.score(case, filed, number)
    what = f"{cause.name}, {filed.quantity} at step {filed.at}"
    shown = f"{what}: {number:.4g} in the run as it is, and {score.truth:.4g} with {filed.change}"
    shows = abs(score.truth - number) >= VISIBLE * max(abs(score.truth), abs(number))
    yield shown, "" if shows else f"{shown}, which hardly shows"
    reached = task.standard(score.value)
    told = f"{cause.name}, the right diagnosis: {score.value} {task.unit}, {reached or 'in no class'}"
    yield told, "" if reached else told
    yield from _cheats(case, filed, number, score.truth)


def _cheats(case: Case, filed: Filed, number: float, truth: float) -> Iterator[Finding]:
    """Yields what becomes of carelessness, of guessing, of intervals that say nothing, and of edited figures."""
    name, task = case.cause.name, case.task
    careless = judging.WRONG + judging.STEP * (OFF - judging.NEAR)
    reached = task.standard(careless)
    told = f"{name}, a wrong cause first, and a step {OFF} off: {careless} {task.unit}, {reached or 'in no class'}"
    yield told, "" if reached in ("", task.standards[0].name) else told
    wrong = case
    for other in (each.name for each in task.causes if each.name != name):
        wrong = wrong.file(replace(filed, cause=other))
    guessed = task.standard(judging.WRONG * wrong.wrong)
    yield f"{name}, every other cause first: {guessed or 'in no class'}", guessed and f"{name}: guessing is in a class"
    far = 1e6 * max(abs(number), abs(truth))
    wide = (number + 1e-9 * far, far) if truth > number else (-far, number - 1e-9 * far)
    cost = judging.prediction_cost(wide, number, truth)
    reached = task.standard(cost)
    yield f"{name}, an interval that holds everything else: {cost} {task.unit}", reached and f"{name}: it is in a class"
    yield _refused(f"{name}, an interval with the run's own number", case, replace(filed, interval=(-far, far)))
    if filed.step > 1:
        yield _early(f"{name}, a step before the cause", case, filed)
    path = case.run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    files.write(path, "".join(json.dumps({**line, "loss": line["loss"] - 0.5}) + "\n" for line in lines))
    yield _refused(f"{name}, edited figures", case, filed)


def _early(what: str, case: Case, filed: Filed) -> Finding:
    """Returns the sentence that refuses a prediction of a step at which nothing is wrong yet, or a complaint."""
    path = case.folder / FORM
    text = path.read_text(encoding="utf-8")
    files.write(path, text.replace(f"step = {filed.at}\ninterval", f"step = {filed.step - 1}\ninterval"))
    try:
        read(path, case.task)
    except UsageError as error:
        return f"{what}: {error}", ""
    return "", f"{what} is accepted"


def _refused(what: str, case: Case, filed: Filed) -> Finding:
    """Returns the sentence that refuses a diagnosis, or a complaint if none does."""
    try:
        number_in(case.lines()[filed.at], filed)
    except UsageError as error:
        return f"{what}: {error}", ""
    return "", f"{what} is accepted"
