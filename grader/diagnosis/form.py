"""A diagnosis: the cause that a learner names, the step where it begins, and a prediction that a new run tests."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from grader.course.forms import is_number, require_interval, require_known, table_of, wrong
from grader.task import Diagnosis

FORM = "diagnosis.toml"
MEND = "mend"


@dataclass(frozen=True)
class Filed:
    """A diagnosis as it was filed.

    Attributes:
        cause: The name of the cause.
        step: The step where it begins, counted from 1; 0 if it is there before the first.
        change: What is changed in the run that tests the prediction: `mend` takes the cause out that is named, and
            `KEY=VALUE` is a setting.
        quantity: The quantity that is predicted, as the lines of metrics and norms call it.
        at: The step at which it is predicted.
        interval: The bounds of an 80% interval.
    """

    cause: str
    step: int
    change: str
    quantity: str
    at: int
    interval: tuple[float, float]

    def dumps(self) -> str:
        """Returns it as text for the log."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def loads(cls, text: str) -> "Filed":
        """Returns what `dumps` wrote."""
        known = json.loads(text)
        return cls(**{**known, "interval": tuple(known["interval"])})


def read(path: Path, task: Diagnosis) -> Filed | None:
    """Returns the diagnosis in a file; None as long as no cause is named. Raises UsageError, which says where it is not
    one."""
    table = table_of(path, task)
    require_known(path, table, "the diagnosis", "cause", "step", "prediction")
    cause, names = table.get("cause"), [each.name for each in task.causes]
    if cause == "":
        return None
    if cause not in names:
        raise wrong(path, f"`cause` is one of {', '.join(names)}", cause)
    step = table.get("step")
    if type(step) is not int or not 0 <= step <= task.steps:
        raise wrong(path, f"`step` is a number from 0 to {task.steps}", step)
    prediction = table.get("prediction")
    if not isinstance(prediction, dict):
        raise wrong(path, "[prediction] says what will be different", prediction)
    return _predicted(path, task, cause, step, prediction)


def _predicted(path: Path, task: Diagnosis, cause: str, step: int, table: Mapping[str, Any]) -> Filed:
    require_known(path, table, "[prediction]", "change", "quantity", "step", "interval")
    change, quantity, at, interval = (table.get(name) for name in ("change", "quantity", "step", "interval"))
    if not isinstance(change, str) or change not in (MEND, *task.changes):
        raise wrong(path, f"`change` is {MEND} or one of {', '.join(task.changes)}", change)
    if not isinstance(quantity, str) or not quantity:
        raise wrong(path, "`quantity` is a name from metrics.jsonl or norms.jsonl", quantity)
    if type(at) is not int or not 1 <= at <= task.steps:
        raise wrong(path, f"`step` of [prediction] is a number from 1 to {task.steps}", at)
    if at < step:
        raise wrong(
            path, f"`step` of [prediction] is {step} or later: before that, by your diagnosis, nothing is wrong", at
        )
    ends = require_interval(path, interval, "[2.1, 2.6]")
    return Filed(cause, step, change, quantity, at, ends)


def number_in(line: Mapping[str, Any], filed: Filed) -> float:
    """Returns the predicted quantity in the run as it is, of which `line` has all quantities at that step. Raises
    UsageError if it has no number there, or if the interval holds it, so that the prediction says nothing."""
    number = line.get(filed.quantity)
    if not is_number(number):
        raise UsageError(
            f"{FORM}: the run has no number for {filed.quantity!r} at step {filed.at}. It has {', '.join(line)}."
        )
    low, high = filed.interval
    if low <= number <= high:
        raise UsageError(
            f"{FORM}: {filed.quantity} at step {filed.at} is {number:.4g} in the run as it is, which your interval "
            f"[{low:g}, {high:g}] holds. Predict something that is false of that run."
        )
    return float(number)
