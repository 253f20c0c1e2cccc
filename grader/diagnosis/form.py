"""A diagnosis: the cause that a learner names, the step where it begins, and a prediction that a new run tests."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from grader.course import forms
from grader.course.forms import is_number
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

    def toml(self) -> str:
        """Returns it as the text of the file that a learner fills in."""
        texts = {name: json.dumps(value) for name, value in vars(self).items()}
        return (
            f"cause = {texts['cause']}\nstep = {self.step}\n\n[prediction]\nchange = {texts['change']}\n"
            f"quantity = {texts['quantity']}\nstep = {self.at}\ninterval = {texts['interval']}\n"
        )

    @classmethod
    def loads(cls, text: str) -> "Filed":
        """Returns what `dumps` wrote."""
        known = json.loads(text)
        return cls(**{**known, "interval": tuple(known["interval"])})


def read(path: Path, task: Diagnosis) -> Filed | None:
    """Returns the diagnosis in a file; None as long as no cause is named. Raises UsageError, which says where it is not
    one."""
    form = forms.read(path, task).only("cause", "step", "prediction")
    names, changes = [each.name for each in task.causes], (MEND, *task.changes)
    cause = form.value("cause", f"is one of {', '.join(names)}", ["", *names].__contains__)
    if not cause:
        return None
    step = form.whole("step", 0, task.steps)
    form = form.part("prediction").only("change", "quantity", "step", "interval")
    change = form.value("change", f"is {MEND} or one of {', '.join(task.changes)}", changes.__contains__)
    quantity = form.value("quantity", "is a name from metrics.jsonl or norms.jsonl", lambda it: isinstance(it, str))
    at = form.whole("step", 1, task.steps)
    if at < step:
        raise form.wrong("step", f"is {step} or later: before that, by your diagnosis, nothing is wrong")
    return Filed(cause, step, change, quantity, at, form.interval("[2.1, 2.6]"))


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
