"""The page of a class: summary.html, which needs no other file, and the same in the studio while a batch runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from commandline.problem_name import ProblemName
from commandline.text import counted, printable
from grader.batch import similarity
from grader.batch.records import Change, Record, Regrade, collated, total
from grader.batch.similarity import Pair, Piece
from grader.batch.summary import ProblemSummary, Summary, by_learner_unused
from grader.course.selection import selected
from grader.judge.verdict import Verdict
from grader.report import html_report

_HERE = Path(__file__).parent
STYLE = html_report.STYLE + (_HERE / "class_page.css").read_text(encoding="utf-8")
SCRIPT = (_HERE / "class_page.js").read_text(encoding="utf-8")
MOST_PAIRS = 40  # whose files are shown beside each other; the others are listed
_MOST_BANDS = 12  # of a histogram
_STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)  # widths of bands that a reader can count in
_GRADED = (Verdict.PASS, Verdict.FAIL, Verdict.NOT_ATTEMPTED)
_KINDS = {"PASS": "pass", "FAIL": "part", "NOT ATTEMPTED": "stub"}


@dataclass(frozen=True)
class Cell:
    """A learner's mark for one problem in the table of learners. `kind` selects its style."""

    kind: str
    text: str
    words: str


@dataclass(frozen=True)
class Learner:
    """A learner's row in the table, and the records below it.

    Attributes:
        name: The learner's name.
        anchor: The id of the element that holds the records.
        section: The part of the class; empty if it is not known.
        mark: The sum of the marks.
        points: The most that the sum could be.
        passed: The number of problems passed.
        late: The number of late records.
        cells: The cells of the row, one for each problem.
        records: The learner's records.
        unused: The learner's files that were not used: (learner, file, reason).
        regrades: The learner's regrades.
        changes: The learner's marks that changed without a new submission.
    """

    name: str
    anchor: str
    section: str
    mark: float
    points: int
    passed: int
    late: int
    cells: Sequence[Cell]
    records: Sequence[Record]
    unused: Sequence[tuple[str, str, str]]
    regrades: Sequence[Regrade]
    changes: Sequence[Change]

    @property
    def words(self) -> str:
        """The text in which the filter searches, in lower case."""
        parts = [
            self.name,
            self.section,
            *(text for record in self.records for text in (record.verdict, record.misconception)),
        ]
        return " ".join([*parts, "late" * bool(self.late), "unused" * bool(self.unused)]).casefold()


@dataclass(frozen=True)
class Bar:
    """A row of a histogram: how many learners are in it, and their share of the longest row."""

    label: str
    count: int
    share: float


@dataclass(frozen=True)
class Beside:
    """A pair of similar files; `one` and `other` are empty if they are not shown."""

    pair: Pair
    one: Sequence[Piece] = ()
    other: Sequence[Piece] = ()


def document(summary: Summary) -> str:
    """Returns the whole page, which needs no other file. It can be read without its script, which sorts and filters."""
    size = f"{counted(len(summary.records), 'learner')}, {counted(len(summary.problems), 'problem')}"
    title = f"{summary.about[0]}: {size}" if summary.about else size
    return html_report.page(title, f"{selected().title}: results of a class", render(summary), STYLE, SCRIPT)


def render(summary: Summary) -> str:
    """Returns the page as one `<article>`, to be shown with STYLE and SCRIPT. All text in it is escaped."""
    learners = list(_learners(summary))
    errors = [record for learner in learners for record in learner.records if Verdict(record.verdict) not in _GRADED]
    records = [record for learner in learners for record in learner.records]
    return _template().render(
        summary=summary, unused=[*by_learner_unused(summary.unused)],
        learners=learners, anchors={learner.name: learner.anchor for learner in learners},
        errors=sorted(errors, key=lambda record: (not record.message.startswith("internal "
            "error"), collated(record.learner))),
        facts=list(_facts(summary, records)), totals=_totals(learners, summary.points),
        histograms={row.problem.name: _histogram(row, records) for row in summary.problems},
        pairs=list(_beside(summary)), threshold=similarity.THRESHOLD, length=similarity.LENGTH,
        labels={row.problem.name: row.problem.label for row in summary.problems}, plain=_plain, printable=printable,
        any_late=any(learner.late for learner in learners), most_pairs=MOST_PAIRS,
    )  # fmt: skip


def _facts(summary: Summary, records: Sequence[Record]) -> Iterator[str]:
    missing = sum(not record.is_handed_in for record in records)
    yield counted(len(summary.records), "learner")
    yield counted(len(summary.problems), "problem")
    yield f"{len(records) - missing} of {counted(len(records), 'possible submission')} handed in"
    yield f"{summary.verdicts['PASS']} passed"
    if summary.records:
        mean = total(records)[0] / len(summary.records)
        yield f"mean total {mean:.1f} of {counted(summary.points, 'point')}"


def _learners(summary: Summary) -> Iterator[Learner]:
    names = [row.problem.name for row in summary.problems]
    unused = [*by_learner_unused(summary.unused)]
    for number, (name, records) in enumerate(summary.records.items(), 1):
        by_problem = {ProblemName(record.problem): record for record in records}
        yield Learner(
            name, f"learner-{number}", summary.sections.get(name, ""),
            _plain(total(records)[0]), total(records)[1],
            sum(record.verdict == "PASS" for record in records), sum(bool(record.late) for record in records),
            [_cell(by_problem.get(problem)) for problem in names], records,
            [row for row in unused if row[0] == name],
            [regrade for regrade in summary.regrades if regrade.learner == name],
            [change for change in summary.changes if change.learner == name],
        )  # fmt: skip


def _cell(record: Record | None) -> Cell:
    if record is None:
        return Cell("none", "…", "not graded yet")
    if record.excused:
        return Cell("none", "EX", "excused")
    if not record.is_handed_in:
        return Cell("none", "–", "not handed in")
    kind = _KINDS.get(record.verdict, "error")
    words = f"{record.verdict}, {record.mark} of {record.points}" + (f", {record.late}" if record.late else "")
    return Cell(kind, "stub" if kind == "stub" else f"{record.mark}", words)


def _totals(learners: Sequence[Learner], points: int) -> list[Bar]:
    """Returns the learners by total mark. Learners who handed in nothing are in a row of their own."""
    present = [learner for learner in learners if any(record.is_handed_in for record in learner.records)]
    return bars([learner.mark for learner in present], points, len(learners) - len(present))


def _histogram(row: ProblemSummary, records: Sequence[Record]) -> list[Bar]:
    own = [record for record in records if record.problem == row.problem.name and not record.excused]
    marks = [record.mark for record in own if record.is_handed_in]
    return bars(marks, row.problem.points, len(own) - len(marks))


def bars(marks: Sequence[float], points: int, missing: int) -> list[Bar]:
    """Returns a histogram of marks from 0 to `points`, in bands of equal width. The full score is a band of its own."""
    width = next((step for step in _STEPS if points <= step * (_MOST_BANDS - 1)), -(-points // (_MOST_BANDS - 1)))
    counts = Counter(points if mark >= points else int(mark // width) * width for mark in marks)
    starts = [*range(0, points, width), points]
    rows = [("not handed in", missing)] if missing else []
    for start in starts:
        last = min(start + width, points) - 1 if start < points else start
        rows.append((f"{start} to {last}" if last > start else str(start), counts[start]))
    longest = max((count for _, count in rows), default=0)
    return [Bar(label, count, count / longest if longest else 0.0) for label, count in rows]


def _beside(summary: Summary) -> Iterator[Beside]:
    sources = {
        (record.learner, record.problem): record.source for records in summary.records.values() for record in records
    }
    for number, pair in enumerate(summary.duplicates):
        if number >= MOST_PAIRS:
            yield Beside(pair)
            continue
        texts = (sources[name, pair.problem] for name in (pair.one, pair.other))
        yield Beside(pair, *similarity.compared(pair, *texts))


def _plain(mark: float) -> float:
    """Returns a whole number as an int, and no more decimals than a reader needs."""
    return int(mark) if mark == int(mark) else round(mark, 2)


@cache
def _template() -> jinja2.Template:
    return html_report.environment(_HERE).get_template("class_page.jinja")
