"""The statement of what a submission costs: its bill beside other programs, or its time, or why there is neither."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import click

from commandline import terminal
from grader.cost import bill as bill_
from grader.cost import compare, roofline, timing
from grader.cost import terminal as rendered
from grader.cost.bill import Bill
from grader.cost.compare import Known
from grader.cost.function import NAME
from grader.cost.timing import Timing
from grader.isolation.sandbox import Workers
from grader.judge.submission import Submission
from grader.problem import Problem

SCHEMA = 1  # of the JSON: an incompatible change increases it


@dataclass(frozen=True)
class Statement:
    """What a submission costs.

    Attributes:
        problem: The problem that it is for.
        sources: The texts of its files by name.
        bill: Its bill; None if it has no program that can be counted.
        timing: Its time beside the reference's, if it has no program.
        reason: Why it has no program, or why it has no bill and no time.
        others: The figures of other correct programs.
        attempts: The compared figures of earlier attempts.
    """

    problem: Problem
    sources: Mapping[str, str] = field(default_factory=dict)
    bill: Bill | None = None
    timing: Timing | None = None
    reason: str = ""
    others: Known = field(default_factory=Known)
    attempts: Sequence[Mapping[str, int]] = ()

    @classmethod
    def of(
        cls,
        problem: Problem,
        submission: Submission,
        workers: Workers,
        attempts: Sequence[Mapping[str, int]] = (),
    ) -> Self:
        """Returns the statement of a submission. Raises WorkerStartError."""
        sources = bill_.texts(problem, submission)
        result = bill_.count(problem, submission, workers)
        if isinstance(result, Bill):
            return cls(problem, sources, result, others=compare.known(problem), attempts=attempts)
        if result.failure or problem.name == NAME:
            return cls(problem, sources, reason=result.sentence())
        measured = timing.time(problem, submission, workers)
        if isinstance(measured, Timing):
            return cls(problem, sources, timing=measured, reason=result.sentence())
        return cls(problem, sources, reason=measured.sentence())

    @property
    def is_counted(self) -> bool:
        """Whether there is a bill or a time."""
        return self.bill is not None or self.timing is not None

    @property
    def title(self) -> str:
        """The title of the statement."""
        if self.problem.name == NAME:
            return f"What {self.problem.title} costs"
        return f"Problem {self.problem.label}, {self.problem.title}: what your program costs"

    def about(self) -> str:
        """Returns what was counted, in a sentence."""
        if self.bill:
            counted = f"Counted on {bill_.described(self.problem)}, with {self.bill.counted_with}."
            return " ".join(filter(None, (counted, bill_.repeated(self.problem))))
        if self.timing:
            return f"It has no program to count: {self.reason}." if self.reason else ""
        return f"There is nothing to count: {self.reason}"

    def text(self) -> str:
        """Returns the statement for a terminal."""
        head = [click.style(self.title, bold=True), *terminal.wrap(self.about(), terminal.width())]
        if self.bill:
            return "\n".join([*head, "", rendered.render(self.bill, self.sources, self.others, self.attempts)])
        return "\n".join([*head, *([rendered.render_timing(self.timing)] if self.timing else [])])

    def encode(self) -> dict[str, Any]:
        """Returns the statement as JSON values."""
        fields: dict[str, Any] = {"schema": SCHEMA, "problem": self.problem.name}
        if self.bill:
            times = roofline.times(self.bill.figures)
            return fields | {
                "case": bill_.described(self.problem),
                "bill": self.bill.encode(),
                "others": asdict(self.others),
                "attempts": list(self.attempts),
                "difference": compare.explained(self.bill, self.others),
                "roofline": [asdict(each) | {"binds": each.binds} for each in times],
            }
        return fields | ({"timing": asdict(self.timing)} if self.timing else {"error": self.reason})
