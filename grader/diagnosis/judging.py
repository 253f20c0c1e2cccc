"""What a diagnosis is worth: the prediction is run, and costs its width and how far it missed."""

import math

from commandline.errors import UsageError
from commandline.text import counted
from grader.course.attempts import Say
from grader.course.scores import Part, Score, Told, begun, interval_cost
from grader.course.workspace import Workspace
from grader.diagnosis.case import Case, draw
from grader.diagnosis.form import FORM, MEND, Filed, number_in, read
from grader.task import Diagnosis

WRONG = 100  # points that a wrong cause costs
NEAR, STEP = 10, 2  # steps within which the beginning is right, and points for each step beyond
MOST = 1000  # points that a prediction costs at most


def step(space: Workspace, task: Diagnosis, *, give_up: bool, say: Say = lambda text: None) -> Told:
    """Does what comes next with a run that went wrong: makes its folder, or puts a diagnosis to the test. With
    `give_up`, ends it and tells the cause. Raises UsageError and CommandError."""
    case = Case.under_way(space, task)
    if give_up:
        if case is None:
            raise UsageError(f"No run is under way. `grade task {task.label}` makes one.")
        case.close(None, missed=True)
        return Told(_of_cause(case), {"cause": case.cause.name})
    case, new = (case or draw(space, task)).make(say)
    filed = case.right or read(case.folder / FORM, task)
    if filed is None:
        return begun(
            new,
            f"The run in {case.run} went wrong. Find out why: read `grade show {task.label}`, fill in "
            f"{case.folder / FORM}, then `grade task {task.label}` puts your diagnosis to the test.",
        )
    number = number_in(case.lines()[filed.at], filed)
    case = case.file(filed)
    if filed.cause != case.cause.name:
        return _of_wrong_cause(case, filed, number, say)
    say("training the run that you predict")
    scored = score(case, filed, number)
    case.close(scored.value, missed=case.wrong > 0)
    return scored.told(task, *_of_cause(case))


def score(case: Case, filed: Filed, number: float) -> Score:
    """Returns the score of a diagnosis with the right cause. `number` is the predicted quantity in the run as it is.
    Trains a run. Raises CommandError and UsageError."""
    begins, truth = case.tested(filed)
    low, high = filed.interval
    wrong = Part(WRONG * case.wrong, f"{counted(case.wrong, 'wrong cause')} before this one")
    late = Part(
        STEP * max(abs(filed.step - begins) - NEAR, 0),
        f"you say that it begins at step {filed.step}; it begins at step {begins}",
    )
    prediction = Part(
        prediction_cost(filed.interval, number, truth),
        f"you predicted [{low:g}, {high:g}] for {filed.quantity} at step {filed.at} with {filed.change}; it is "
        f"{truth:.4g}, and was {number:.4g}",
    )
    facts = {"wrong": case.wrong, "late": late.points, "prediction": prediction.points, "begins": begins}
    return Score((wrong, late, prediction), facts=facts | _compared(filed, number, truth))


def prediction_cost(interval: tuple[float, float], number: float, truth: float) -> int:
    """Returns what a prediction costs: that of its interval, in percent of the change that there was, because
    quantities have no common scale."""
    change = abs(truth - number)
    if not math.isfinite(truth) or not change:
        return MOST
    return round(min(100 * sum(interval_cost(interval, truth)) / change, MOST))


def _of_wrong_cause(case: Case, filed: Filed, number: float, say: Say) -> Told:
    """Returns what becomes of a prediction with another cause than the right one. Trains a run if a setting is to be
    changed: what is not there cannot be taken out."""
    if filed.change == MEND:
        truth = number
        told = f"Without {filed.cause}, the run is what it was: {filed.quantity} at step {filed.at} stays {number:.4g}."
    else:
        say(f"training with {filed.change}")
        truth = case.tested(filed)[1]
        holds = filed.interval[0] <= truth <= filed.interval[1]
        told = (
            f"With {filed.change}, {filed.quantity} at step {filed.at} is {truth:.4g}, which your interval "
            f"{'holds' if holds else 'does not hold'}."
        )
    blocks = (
        f"No score yet. {told} The cause is another one than {filed.cause}.",
        f"You have named {counted(case.wrong, 'wrong cause')}, each of which costs {WRONG}. Change the diagnosis and "
        f"`grade task {case.task.label}` again, or add `--give-up` to see the cause.",
    )
    facts = {"score": None, "class": None, "error": "the cause is another one"}
    return Told(blocks, facts | _compared(filed, number, truth))


def _compared(filed: Filed, number: float, truth: float) -> dict[str, object]:
    return {"cause": filed.cause, "was": number, "is": truth}


def _of_cause(case: Case) -> tuple[str, str]:
    """Returns the cause, how one sees it, and what is next."""
    cause = case.cause
    return (
        f"The cause is {cause.name}: {cause.what}. {cause.sign}",
        f"`grade task {case.task.label}` makes another run.",
    )
