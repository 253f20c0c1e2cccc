"""The report of an experiment: its numbers come from the runs, and its verdict from the numbers."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from commandline.errors import UsageError
from grader.experiment import typed
from grader.experiment.claim import ARMS, REPORT, Claim
from grader.task import Factor

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
_PLACEHOLDER = re.compile(r"\{\{([^{}\n]*)\}\}")
# `Verdict: supports`, also as a heading with the word below it
_VERDICT = re.compile(
    rf"^[^\w\n]*verdict[*_ ]*(?::[^\w\n]*|\n)(?:\W*(?=(?:{'|'.join(VERDICTS)})\b))?(\w*)",
    re.IGNORECASE | re.MULTILINE,
)


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
    """Returns the verdict that a report names; empty if it names none yet. Raises UsageError if it is another word, or
    if there are two."""
    words = dict.fromkeys(word.lower() for word in _VERDICT.findall(text) if word)
    if other := next((word for word in words if word not in VERDICTS), ""):
        raise UsageError(f"{REPORT}: the verdict is {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}; it is {other!r}.")
    if len(words) > 1:
        raise UsageError(f"{REPORT} has the verdicts {' and '.join(words)}; keep the one that follows.")
    return next(iter(words), "")


def check(text: str, claim: Claim, factor: Factor, settings: Mapping[str, Any]) -> None:
    """Raises UsageError if a placeholder has no such name, if a result is typed in a report, or if a placeholder is
    missing. `settings` are those of the runs by name."""
    used = [name.strip() for name in _PLACEHOLDER.findall(text)]
    if unknown := next((name for name in used if name not in NAMES), None):
        raise UsageError(f"{REPORT}: there is no {{{{{unknown}}}}}; there are {', '.join(sorted(NAMES))}.")
    said = json.dumps([asdict(claim), asdict(factor)], ensure_ascii=False)
    for line, number in typed.results(_PLACEHOLDER.sub(" ", text), said, settings):
        count = f" If it is a count, write {number.replace(',', '')}." if typed.is_count(number) else ""
        raise UsageError(
            f"{REPORT}, line {line}: {number} is typed, and your claim does not hold it. Results come from the runs: "
            f"write a placeholder such as {{{{difference}}}}. A setting needs its name beside it.{count}"
        )
    if missing := {"difference", "interval"}.difference(used):
        raise UsageError(f"{REPORT} must show {' and '.join(f'{{{{{name}}}}}' for name in sorted(missing))}.")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns a report with the numbers of the runs in place of its placeholders."""
    return _PLACEHOLDER.sub(lambda each: values[each[1].strip()], text)
