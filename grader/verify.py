"""Is every problem sound? The author's question, answered through the same path a learner's file takes."""

import ast
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from commandline.errors import CommandError
from grader.course import cases, catalog, page, scaffold
from grader.errors import CourseError
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.judge import Comparison, GradeOptions
from grader.judge.reference import Reference
from grader.judge.session import Outcome, Session
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.paths import SOLUTIONS, STYLES
from grader.problem import Case, Check, Problem

FEWEST_HINTS = 3
FEWEST_STYLES = 2
SECONDS = 3600.0  # for all seeds together: this only bounds our own mistakes
HEADER = f"{'':5}{'problem':28}{'stub':6}{'reference':11}{'seeds':7}{'rejected':10}{'named':8}{'page':6}{'seconds':>8}"


@dataclass
class Margin:
    """The room that one check's tolerance has, in units of the tolerance.

    `right` is the largest error that a correct program was seen to make, `wrong` the smallest of a wrong one.
    """

    check: str
    room: float
    right: float = 0.0
    wrong: float = float("inf")

    @property
    def fine(self) -> bool:
        return self.right * self.room <= 1 and self.wrong >= self.room


@dataclass
class Row:
    """One problem's line in the table, and what falls short."""

    problem: str
    stub: bool = False
    score: int = 0
    points: int = 0
    seeds: int = 0
    asked: int = 0
    ideas: int = 0
    rejected: int = 0
    named: int = 0
    page: bool = False
    seconds: float = 0.0
    margins: list[Margin] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        mark = "LOOK" if self.complaints else "ok"
        return (
            f"{mark:5}{self.problem:28}{'ok' if self.stub else 'no':6}{f'{self.score}/{self.points}':11}"
            f"{f'{self.seeds}/{self.asked}':7}{f'{self.rejected}/{self.ideas}':10}{f'{self.named}/{self.ideas}':8}"
            f"{'ok' if self.page else 'no':6}{self.seconds:8.1f}"
        )

    def as_object(self) -> dict[str, Any]:
        margins = [{**asdict(margin), "wrong": _finite(margin.wrong)} for margin in self.margins]
        return {**asdict(self), "margins": margins}


def margins_table(rows: Iterable[Row]) -> str:
    """The room of every tolerance, a line a check."""
    lines = [
        "\nErrors in units of the tolerance: correct programs must stay far below 1, wrong ones come out far above.",
        f"{'':5}{'problem':28}{'check':40}{'correct':>10}{'wrong':>10}",
    ]
    for row in rows:
        for margin in row.margins:
            wrong = "-" if margin.wrong == float("inf") else f"{margin.wrong:.2g}"
            mark = "ok" if margin.fine else "LOOK"
            lines.append(f"{mark:5}{row.problem:28}{margin.check[:39]:40}{margin.right:10.2g}{wrong:>10}")
    return "\n".join(lines)


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value


def verify(problems: Iterable[Problem], jobs: int | None = None, seeds: int = 20) -> Iterator[Row]:
    """A row for each problem, in order, computed side by side. `seeds` is how many other seeds are tried.

    Each problem has its own process, because a judge adopts the orphans of its submissions.
    """
    chosen = list(problems)
    with ProcessPoolExecutor(min(jobs or os.cpu_count() or 1, len(chosen) or 1), max_tasks_per_child=None) as pool:
        # The longest first, so that nobody waits for it alone at the end.
        begun = sorted(chosen, key=lambda problem: not problem.long_runs)
        rows = {problem.name: pool.submit(verify_one, problem.name, seeds) for problem in begun}
        for problem in chosen:
            yield rows[problem.name].result()


def verify_one(name: str, seeds: int = 20) -> Row:
    """Looks at one problem from all sides."""
    start, row = monotonic(), Row(name, asked=seeds)
    try:
        problem = catalog.load(name)
        row.points = problem.points
        _definition(problem, row)
        reference = Reference(problem)
        try:
            for look in (_page, _whole_runs, _ideas, _correct):
                try:
                    look(problem, reference, row)
                except CourseError as error:
                    row.complaints.append(str(error))
        finally:
            reference.close()
    except CommandError as error:
        row.complaints.append(str(error))
    row.seconds = monotonic() - start
    return row


def _definition(problem: Problem, row: Row) -> None:
    for what, names in {
        "check": [check.name for check in problem.checks],
        "misconception": [idea.name for idea in catalog.misconceptions(problem)],
    }.items():
        row.complaints += [f"two {what}s are called {name!r}" for name, count in Counter(names).items() if count > 1]
    for other in catalog.problems():
        if other.name != problem.name and problem.number == other.number:
            row.complaints.append(f"{other.name} has the same number")
    defined = {node.name for node in ast.parse(catalog.stub_text(problem)).body if hasattr(node, "name")}
    row.complaints += [f"the stub does not define `{e.name}`" for e in problem.entries if e.name not in defined]
    if problem.points < 1:
        row.complaints.append("no check has points")
    row.complaints += scaffold.open_items(problem)


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
    for report in reference.examples(catalog.page_text(problem)):
        row.complaints.append("an example is not true: " + " ".join(report.split())[-300:])
    row.page = len(row.complaints) == before


def _whole_runs(problem: Problem, reference: Reference, row: Row) -> None:
    """The stub and the reference, as if someone had handed them in."""
    stub = _grade(
        problem,
        Submission("stub.py", {**reference.submission().sources, problem.name: catalog.stub_text(problem)}),
        reference,
    )
    row.stub = stub.verdict is Verdict.NOT_ATTEMPTED
    if not row.stub:
        row.complaints.append(f"the stub is {stub.verdict}: {_why(stub)}")
    right = _grade(problem, submission.reference(problem), reference)
    row.score = right.score
    if right.verdict is not Verdict.PASS:
        row.complaints.append(f"the reference is {right.verdict}: {_why(right)}")


def _ideas(problem: Problem, reference: Reference, row: Row) -> None:
    """Each form of each wrong idea: rejected and named, and rejected with every other seed."""
    row.margins = [Margin(check.name, check.tolerance.room) for check in problem.checks]
    for variant, idea in reference.ideas.items():
        row.ideas += 1
        comparison = _comparison(problem, reference, functools.partial(_ask, reference, variant), 0)
        # All checks, for their margins; but where each takes a run, those up to the first that fails.
        results = [comparison.first_failure()] if problem.long_runs else comparison.results()
        first = next((result for result in results if result and not result.passed), None)
        if first is None:
            row.complaints.append(f"{variant!r} is not rejected")
            continue
        found = comparison.misconception()
        row.named += found is idea
        if found is not idea:
            name = found.name if found else "nothing"
            row.complaints.append(f"{variant!r} is named as {name!r}: {first.check.name}: {first.message}")
        _measure_wrong(row.margins, comparison)
        reference.keep = False
        seeds = range(1, row.asked + 1)
        missed = [seed for seed in seeds if _accepts(problem, reference, variant, seed, first.check)]
        reference.keep = True
        row.rejected += not missed
        if missed:
            row.complaints.append(
                f"{variant!r} is not rejected with the seed {missed[0]} ({len(missed)} of {row.asked})"
            )


def _comparison(
    problem: Problem, reference: Reference, probe: Callable[[Check, Case], Outcome], seed: int
) -> Comparison:
    return Comparison(problem, reference, probe, seed, _cases(problem.name, seed))


@functools.cache
def _cases(name: str, seed: int) -> dict[str, list[Case]]:
    """The same objects each time, so that the reference answers for each case once."""
    return cases.draw_all(catalog.load(name), seed)


def _ask(reference: Reference, variant: str, check: Check, case: Case) -> Outcome:
    return reference.ask(check, case, variant).result()


def _accepts(problem: Problem, reference: Reference, variant: str, seed: int, likely: Check) -> bool:
    """Whether no check rejects it. The one that did with another seed is asked first: it mostly does again."""
    comparison = _comparison(problem, reference, functools.partial(_ask, reference, variant), seed)
    return comparison.judge(likely).passed and comparison.first_failure() is None


def _correct(problem: Problem, reference: Reference, row: Row) -> None:
    """The reference with every other seed, and the correct programs in other styles: what their errors are."""
    row.seeds = _passes(
        problem, reference, submission.reference(problem), row, range(1, row.asked + 1), "the reference"
    )
    styles = sorted(STYLES.glob(f"p{problem.label}_*.py"))
    if STYLES.is_dir() and len(styles) < FEWEST_STYLES:
        row.complaints.append(f"fewer than {FEWEST_STYLES} correct programs in other styles in {STYLES}")
    for path in styles:
        sources = catalog.with_imports(problem.name, path.read_text(encoding="utf-8"), catalog.in_folder(SOLUTIONS))
        _passes(problem, reference, Submission(path.name, sources), row, range(min(row.asked, 4) + 1), path.name)
    for margin in row.margins:
        if not margin.fine:
            row.complaints.append(
                f"the tolerance of {margin.check!r} has too little room: correct programs reach {margin.right:.2g} of it, wrong "
                f"ones {margin.wrong:.2g} ({margin.room:g} on both sides is wanted)"
            )


def _passes(
    problem: Problem, reference: Reference, source: Submission, row: Row, seeds: Iterable[int], name: str
) -> int:
    """With how many seeds a correct program passes, all in one process."""
    session = Session(problem, _fork_server().worker(submission.job(problem, source)), SECONDS)
    passed = 0
    try:
        failure = session.load("", source)
        if failure:
            row.complaints.append(f"{name}: {failure.sentence()}")
            return 0
        for seed in seeds:
            comparison = _comparison(problem, reference, functools.partial(session.probe, ""), seed)
            results = comparison.results()
            wrong = [result for result in results if not result.passed]
            passed += not wrong
            if wrong:
                row.complaints.append(f"{name} fails with the seed {seed}: {wrong[0].check.name}: {wrong[0].message}")
            _measure_correct(row.margins, comparison)
    finally:
        session.worker.close()
    return passed


def _errors(comparison: Comparison, margins: list[Margin]) -> list[tuple[float, Margin, bool]]:
    """The error of every outcome that was numbers, the margin of its check, and whether it was wrong."""
    by_check = dict(zip([id(check) for check in comparison.problem.checks], margins, strict=True))
    seen = [item for item in comparison.evidence if not (item.outcome.failure or item.outcome.numeric)]
    return [(comparison.error(item), by_check[id(item.check)], item.wrong) for item in seen]


def _measure_correct(margins: list[Margin], comparison: Comparison) -> None:
    for size, margin, _ in _errors(comparison, margins):
        margin.right = max(margin.right, size)


def _measure_wrong(margins: list[Margin], comparison: Comparison) -> None:
    """An idea counts where it is plainest: it may also show faintly in a check that another one backs up."""
    errors = _errors(comparison, margins)
    wrong = [(size, margin) for size, margin, is_wrong in errors if is_wrong]
    if wrong and len(errors) == len(comparison.evidence):
        size, margin = max(wrong, key=lambda pair: pair[0])
        margin.wrong = min(margin.wrong, size)


@functools.cache
def _fork_server() -> ForkServer:
    """One for all workers of this process."""
    return ForkServer()


def _grade(problem: Problem, source: Submission, reference: Reference) -> Report:
    return judge.grade(problem, source, _fork_server(), GradeOptions(reference=reference, grade_imports=False))


def _why(report: Report) -> str:
    failed = report.first_failure
    return f"{failed.check.name}: {failed.message}" if failed else ""
