"""What a diagnosis is worth: the prediction is run, and costs its width and how far it missed."""

import math
from dataclasses import dataclass

from grader.diagnosis.case import Case
from grader.diagnosis.form import Filed

WRONG = 100  # points that a wrong cause costs
NEAR, STEP = 10, 2  # steps within which the beginning is right, and points for each step beyond
MISS = 10.0  # times the distance of the truth from an 80% interval: 2 / (1 - 0.8) (Gneiting and Raftery 2007)
MOST = 1000  # points that a prediction costs at most


@dataclass(frozen=True)
class Score:
    """The score of a right diagnosis, of which less is better, and what it is made of.

    Attributes:
        wrong: How many wrong causes were named before.
        late: What it costs that the step is not where the cause begins.
        prediction: The width of the interval, in percent of the change that there was, and what it costs that the truth
            lies outside of it.
        begins: The step where the cause begins.
        number: The predicted quantity in the run as it is.
        truth: The same in the run that tested the prediction.
    """

    wrong: int
    late: int
    prediction: int
    begins: int
    number: float
    truth: float

    @property
    def value(self) -> int:
        """The score."""
        return WRONG * self.wrong + self.late + self.prediction


def score(case: Case, filed: Filed, number: float) -> Score:
    """Returns the score of a diagnosis with the right cause. `number` is the predicted quantity in the run as it is.
    Trains a run. Raises CommandError and UsageError."""
    begins, truth = case.tested(filed)
    late = STEP * max(abs(filed.step - begins) - NEAR, 0)
    return Score(case.wrong, late, prediction_cost(filed.interval, number, truth), begins, number, truth)


def prediction_cost(interval: tuple[float, float], number: float, truth: float) -> int:
    """Returns what a prediction costs. The scale is the change, because quantities have no common one."""
    low, high = interval
    change = abs(truth - number)
    if not math.isfinite(truth) or not change:
        return MOST
    outside = max(low - truth, truth - high, 0.0)
    return round(min(100 * (high - low + MISS * outside) / change, MOST))
