"""Is every problem sound? The author's question, answered through the same path a learner's file takes."""

import ast
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from grader import cache, course, judge, page, submission
from grader.errors import CourseError, GradeError
from grader.problem import Problem
from grader.reference import Reference
from grader.sandbox import Limits, Worker
from grader.submission import Submission
from grader.verdict import Report, Verdict

FEWEST_HINTS = 3
HEADER = f"{'':4}{'problem':26}{'stub':6}{'reference':11}{'rejected':10}{'named':8}{'page':6}{'seconds':>8}"


@dataclass
class Row:
    """One problem's line in the table, and what falls short."""

    problem: str
    stub: bool = False
    score: int = 0
    points: int = 0
    ideas: int = 0
    rejected: int = 0
    named: int = 0
    page: bool = False
    seconds: float = 0.0
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        mark = "LOOK" if self.complaints else "ok"
        return (
            f"{mark:5}{self.problem:25}{'ok' if self.stub else 'no':6}{f'{self.score}/{self.points}':11}"
            f"{f'{self.rejected}/{self.ideas}':10}{f'{self.named}/{self.ideas}':8}{'ok' if self.page else 'no':6}"
            f"{self.seconds:8.1f}"
        )

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def verify(problems: Iterable[Problem], jobs: int | None = None) -> Iterator[Row]:
    """A row for each problem, in order, computed side by side.

    Each problem has its own process, because a judge adopts the orphans of its submissions.
    """
    names = [problem.name for problem in problems]
    with ProcessPoolExecutor(min(jobs or os.cpu_count() or 1, len(names) or 1), max_tasks_per_child=None) as pool:
        yield from pool.map(verify_one, names)


def verify_one(name: str) -> Row:
    """Looks at one problem from all sides."""
    start, row = monotonic(), Row(name)
    try:
        problem = course.load(name)
        row.points = problem.points
        _definition(problem, row)
        reference = Reference(problem)
        try:
            for look in (_page, _runs):
                try:
                    look(problem, reference, row)
                except CourseError as error:
                    row.complaints.append(str(error))
        finally:
            reference.close()
    except GradeError as error:
        row.complaints.append(str(error))
    row.seconds = monotonic() - start
    return row


def _definition(problem: Problem, row: Row) -> None:
    for what, names in {
        "check": [check.name for check in problem.checks],
        "misconception": [idea.name for idea in course.misconceptions(problem)],
    }.items():
        row.complaints += [f"two {what}s are called {name!r}" for name, count in Counter(names).items() if count > 1]
    for other in course.problems():
        if other.name != problem.name and problem.number == other.number:
            row.complaints.append(f"{other.name} has the same number")
    defined = {node.name for node in ast.parse(course.stub_text(problem)).body if hasattr(node, "name")}
    row.complaints += [f"the stub does not define `{e.name}`" for e in problem.entries if e.name not in defined]
    if problem.points < 1:
        row.complaints.append("no check has points")


def _page(problem: Problem, reference: Reference, row: Row) -> None:
    before, found = len(row.complaints), page.sections(problem)
    row.complaints += [f"the page has no section {title!r}" for title in page.SECTIONS if not found.get(title)]
    if list(found) != [title for title in page.SECTIONS if title in found]:
        row.complaints.append("the page's sections are in another order, or there are others")
    if len(page.hints(problem)) < FEWEST_HINTS:
        row.complaints.append(f"the page has fewer than {FEWEST_HINTS} hints")
    row.complaints += [
        f"the page does not give `{entry.name}`"
        for entry in problem.entries
        if entry.name not in found.get("The problem", "")
    ]
    if ">>>" not in found.get("Examples", ""):
        row.complaints.append("the page has no `>>>` example")
    for report in reference.examples(course.page_text(problem)):
        row.complaints.append("an example is not true: " + " ".join(report.split())[-300:])
    row.page = len(row.complaints) == before


def _runs(problem: Problem, reference: Reference, row: Row) -> None:
    stub = _grade(
        problem,
        Submission("stub.py", {**reference.submission().sources, problem.name: course.stub_text(problem)}),
        reference,
    )
    row.stub = stub.verdict is Verdict.NOT_ATTEMPTED
    if not row.stub:
        row.complaints.append(f"the stub is {stub.verdict}: {_why(stub)}")
    right = _grade(problem, submission.reference(problem), reference)
    row.score = right.score
    if right.verdict is not Verdict.PASS:
        row.complaints.append(f"the reference is {right.verdict}: {_why(right)}")
    for variant, idea in reference.ideas.items():
        row.ideas += 1
        report = _grade(problem, reference.submission(variant), reference)
        named = report.misconception.name if report.misconception else "nothing"
        if report.verdict is Verdict.PASS:
            row.complaints.append(f"{variant!r} is not rejected")
            continue
        row.rejected += 1
        if named == idea.name:
            row.named += 1
        else:
            row.complaints.append(f"{variant!r} is named as {named!r}: {_why(report)}")


def _grade(problem: Problem, source: Submission, reference: Reference) -> Report:
    worker = Worker(cache.programs([problem.name, *source.sources.values()]), Limits())
    return judge.grade(problem, source, worker, reference=reference)


def _why(report: Report) -> str:
    failed = report.first_failure
    return f"{failed.check.name}: {failed.message}" if failed else ""
