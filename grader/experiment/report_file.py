"""The report of an experiment: its numbers come from the runs, and its verdict from the numbers."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from commandline.errors import UsageError
from grader.experiment.claim import ARMS, REPORT, Claim

NAMES = (
    "difference",
    "interval",
    "seeds",
    *(f"{arm}:{name}" for arm in ARMS for name in ("test", "each", "validation", "rate")),
)
"""The placeholders of a report."""
VERDICTS = ("supports", "contradicts", "undecided")
# The numbers that 80% of Student's distribution lie within, for 1, 2, ... degrees of freedom (two-sided).
_STUDENT = (3.0777, 1.8856, 1.6377, 1.5332, 1.4759, 1.4398, 1.4149)
_PLACEHOLDER = re.compile(r"\{\{\s*([\w:]+)\s*\}\}")
# A number that may be a result; the 80% of the interval is none
_RESULT = re.compile(r"(?:\d+[.,]\d+|\.\d+)(?:[eE][-+]?\d+)?|\b(?!80\s*%)\d+\s*%|\d+[eE][-+]?\d+")
_VERDICT = re.compile(r"^\W*verdict\W+(\w*)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """What the runs of a claim gave.

    Attributes:
        losses: The loss on the test stories for each seed, by arm.
        validation: The validation loss for each seed, by arm.
        rates: The learning rate that each arm chose.
    """

    losses: Mapping[str, Sequence[float]]
    validation: Mapping[str, Sequence[float]]
    rates: Mapping[str, float]

    @property
    def differences(self) -> list[float]:
        """New minus baseline, for each seed."""
        return [new - old for new, old in zip(self.losses["new"], self.losses["baseline"], strict=True)]

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 80% interval of the mean difference, paired over the seeds (Student 1908); None with one seed."""
        each = self.differences
        n = len(each)
        if n < 2:
            return None
        mean = math.fsum(each) / n
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in each) / (n - 1))
        margin = _STUDENT[n - 2] * deviation / math.sqrt(n)
        return mean - margin, mean + margin

    def values(self) -> dict[str, str]:
        """Returns the text of each placeholder, by its name."""
        interval = self.interval
        found = {
            "difference": f"{math.fsum(self.differences) / len(self.differences):+.4f}",
            "interval": f"[{interval[0]:+.4f}, {interval[1]:+.4f}]" if interval else "none, with one seed",
            "seeds": str(len(self.differences)),
        }
        for arm, losses in self.losses.items():
            found |= {
                f"{arm}:test": f"{math.fsum(losses) / len(losses):.4f}",
                f"{arm}:each": ", ".join(f"{loss:.4f}" for loss in losses),
                f"{arm}:validation": f"{math.fsum(self.validation[arm]) / len(losses):.4f}",
                f"{arm}:rate": f"{self.rates[arm]:g}",
            }
        return found


def verdict_of(claim: Claim, found: Found) -> str:
    """Returns the verdict that follows: whether the interval lies within what is claimed, outside of it, or on both
    sides."""
    interval, least = found.interval, claim.matters
    if interval is None:
        return "undecided"
    low, high = interval
    if claim.expects == "equal":
        within, outside = -least <= low and high <= least, high < -least or low > least
    elif claim.expects == "lower":
        within, outside = high <= -least, low > -least
    else:
        within, outside = low >= least, high < least
    return "supports" if within else "contradicts" if outside else "undecided"


def verdict_in(text: str) -> str:
    """Returns the verdict that a report names; empty if it names none yet. Raises UsageError if it is another word."""
    word = found[1].lower() if (found := _VERDICT.search(text)) else ""
    if word and word not in VERDICTS:
        raise UsageError(f"{REPORT}: the verdict is {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}; it is {word!r}.")
    return word


def check(text: str, claim: Claim, question: str) -> None:
    """Raises UsageError if a result is typed in a report, if a placeholder has no such name, or if one is missing.
    Numbers of the claim and of the question were there before the runs, so they are no results."""
    said = set(map(_plain, _RESULT.findall(f"{json.dumps(asdict(claim))} {question}")))
    for number, line in enumerate(text.splitlines(), 1):
        typed = _RESULT.findall(_PLACEHOLDER.sub("", line))
        if result := next((each for each in typed if _plain(each) not in said), None):
            raise UsageError(
                f"{REPORT}, line {number}: {result} is typed, and your claim does not hold it. Results come from the "
                "runs: write a placeholder such as {{difference}}."
            )
        if unknown := next((name for name in _PLACEHOLDER.findall(line) if name not in NAMES), None):
            raise UsageError(
                f"{REPORT}, line {number}: there is no {{{{{unknown}}}}}; there are {', '.join(sorted(NAMES))}."
            )
    if "difference" not in _PLACEHOLDER.findall(text) or "interval" not in _PLACEHOLDER.findall(text):
        raise UsageError(f"{REPORT} must show {{{{difference}}}} and {{{{interval}}}}.")


def _plain(number: str) -> str:
    """Returns a number as text that is the same for 0.1 and 0.10; anything else unchanged."""
    try:
        return f"{float(number):g}"
    except ValueError:
        return number


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns a report with the numbers of the runs in place of its placeholders."""
    return _PLACEHOLDER.sub(lambda each: values[each[1]], text)
