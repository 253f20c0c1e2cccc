"""The results of `grade verify`: a row for each problem, as a table and as JSON."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from grader.course.promises import Promise
from grader.margins import Margin

HEADER = "".join(
    f"{title:{width}}"
    for title, width in {
        "": 5,
        "problem": 28,
        "stub": 6,
        "reference": 11,
        "seeds": 7,
        "rejected": 10,
        "named": 8,
        "forged": 8,
        "pitfalls": 10,
        "promises": 10,
        "page": 6,
        " seconds": 8,
    }.items()
)


@dataclass
class Row:
    """The result for one problem: its line of the table, and a complaint about each defect.

    Attributes:
        problem: The problem's name.
        stub: Whether the stub gets the right verdict.
        score: The points of the reference.
        points: The points of the problem.
        seeds: The number of seeds with which the reference passes.
        asked: The number of seeds that were tried.
        ideas: The number of variants of the reference with a misconception.
        rejected: The number of variants that the checks reject.
        named: The number of variants that are identified correctly.
        claims: The number of checks of a program, a process or a file.
        forged: The number of these checks with forgeries, all of which lose their points.
        pitfalls: The number of pitfalls of the page.
        covered: The number of pitfalls with a misconception.
        promised: The number of sentences that promise something.
        kept: The number of these with entries in `promises` whose checks see them.
        promises: The entries of the problem's promises.
        page: Whether the page is complete and its examples are true.
        seconds: The time of the verification.
        margins: The margins of the checks' tolerances.
        complaints: A sentence on each defect.
    """

    problem: str
    stub: bool = False
    score: int = 0
    points: int = 0
    seeds: int = 0
    asked: int = 0
    ideas: int = 0
    rejected: int = 0
    named: int = 0
    claims: int = 0
    forged: int = 0
    pitfalls: int = 0
    covered: int = 0
    promised: int = 0
    kept: int = 0
    promises: list[Promise] = field(default_factory=list)
    page: bool = False
    seconds: float = 0.0
    margins: list[Margin] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{_mark(not self.complaints)}{self.problem:28}{'ok' if self.stub else 'no':6}"
            f"{f'{self.score}/{self.points}':11}"
            f"{f'{self.seeds}/{self.asked}':7}{f'{self.rejected}/{self.ideas}':10}{f'{self.named}/{self.ideas}':8}"
            f"{f'{self.forged}/{self.claims}':8}{f'{self.covered}/{self.pitfalls}':10}"
            f"{f'{self.kept}/{self.promised}':10}"
            f"{'ok' if self.page else 'no':6}{self.seconds:8.1f}"
        )

    def encode(self) -> dict[str, Any]:
        """Returns the result as JSON values."""
        margins = [{**asdict(margin), "wrong": _finite(margin.wrong)} for margin in self.margins]
        return {**asdict(self), "margins": margins}


def margins_table(rows: Iterable[Row]) -> str:
    """Returns a table of the margins of all tolerances, one line for each check."""
    lines = [
        "\nErrors in units of the tolerance: those of correct programs must be far below 1, those of wrong ones far "
        "above.",
        f"{'':5}{'problem':28}{'check':40}{'correct':>10}{'wrong':>10}",
    ]
    for row in rows:
        for margin in row.margins:
            wrong = "-" if margin.wrong == float("inf") else f"{margin.wrong:.2g}"
            mark = _mark(margin.wide_enough)
            lines.append(f"{mark}{row.problem:28}{margin.check[:39]:40}{margin.right:10.2g}{wrong:>10}")
    return "\n".join(lines)


def promises_list(rows: Iterable[Row]) -> str:
    """Returns the promises of all pages: each sentence, the check that tests it, and the evidence that it does."""
    lines = ["\nThe promises of the pages, each with its check:"]
    for row in rows:
        for promise in row.promises:
            evidence = f"rejects {promise.broken_by!r}" if promise.broken_by else f"passes {promise.kept_by}"
            lines += [f"{row.problem:28}{promise.page}", f"{'':28}    {promise.check!r} {evidence}"]
    return "\n".join(lines)


def _mark(sound: bool) -> str:
    return f"{'ok' if sound else 'FAIL':5}"


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value
