"""The records of a class: what the programs that passed cost, under names that learners chose for this page.

Only files with such a name in their head are on it, and nothing else of the learner. No row has a rank. The programs
are counted on a case that they were graded on, so that none can do less there.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from commandline import files
from grader.batch.records import StoredAttempt
from grader.batch.store import Store
from grader.cost import bill
from grader.cost.bill import Bill
from grader.cost.figures import COMPARED, PEAK, WORK, Figure, Figures
from grader.course import catalog
from grader.course.selection import selected
from grader.isolation.sandbox import ForkServer
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.judge.verdict import Verdict
from grader.problem import Problem
from grader.report import html_report

FILE = "records.html"
HEAD = 5  # lines in which the name is looked for
_PSEUDONYM = re.compile(r"#\s*pseudonym:\s*([\w.\- ]{1,30}?)\s*")
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    """Programs with the same figures: the names of their authors, and whether none has both fewer operations and less
    memory."""

    names: tuple[str, ...]
    figures: Figures
    is_on_front: bool


def pseudonym(text: str) -> str:
    """Returns the name in the head of a file: `# pseudonym: NAME`. Empty if there is none."""
    found = filter(None, map(_PSEUDONYM.fullmatch, map(str.strip, text.splitlines()[:HEAD])))
    return next((each[1] for each in found), "")


def write(store: Store, seed: int) -> Iterator[str]:
    """Counts the programs of those who want it, and writes the page. Yields its path, or why there is none. `seed` is
    that of the gradings."""
    chosen: dict[str, list[tuple[str, StoredAttempt]]] = {}
    for record in store.records():
        name = pseudonym(record.source)
        attempts = store.attempts(record.learner, record.problem) if name and record.verdict == Verdict.PASS else []
        for attempt in attempts:
            if attempt.attempt == record.attempt:
                chosen.setdefault(record.problem, []).append((name, attempt))
    if not chosen:
        yield "No file that passed names a pseudonym in its head, so there are no records of the class."
        return
    shown: list[tuple[Problem, str, list[Figure], list[Row]]] = []
    with closing(ForkServer()) as server:
        for problem_name, some in sorted(chosen.items()):
            problem = catalog.load(problem_name)
            programs = [(name, Submission(attempt.file, attempt.sources)) for name, attempt in some]
            programs.append(("the reference", submission_.reference(problem)))
            counted = [
                (name, result.figures)
                for name, source in programs
                if isinstance(result := bill.count(problem, source, server, seed), Bill)
            ]
            if run := bill.run_of(problem, seed):
                used = [figure for figure in COMPARED if any(figure.of(figures) for _, figures in counted)]
                shown.append((problem, run[0].name, used, rows(counted)))
    template = html_report.environment(_HERE).get_template("cost_records.jinja")
    path = store.folder / FILE
    title = "What your programs cost"
    files.write(path, html_report.page(title, selected().title, template.render(title=title, problems=shown)))
    yield str(path)


def rows(counted: Sequence[tuple[str, Figures]]) -> list[Row]:
    """Returns one row for programs with the same figures, those with the fewest operations first."""
    together: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name, figures in counted:
        together.setdefault(tuple(sorted(figures.items())), []).append(name)
    points = [(WORK.of(figures), PEAK.of(figures)) for _, figures in counted]
    found = []
    for items, names in together.items():
        figures = dict(items)
        work, peak = WORK.of(figures), PEAK.of(figures)
        is_beaten = any(w <= work and p <= peak and (w, p) != (work, peak) for w, p in points)
        found.append(Row(tuple(sorted(set(names))), figures, not is_beaten))
    return sorted(found, key=lambda row: WORK.of(row.figures))
