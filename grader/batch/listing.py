"""`grade results`: the results of a class in the terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from commandline import terminal
from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch import marks, summary
from grader.batch.records import Change, Person, Record, Regrade, total
from grader.batch.results import Results
from grader.course import catalog

_WIDEST_NAME = 40


@dataclass(frozen=True)
class Filter:
    """A filter of results. Searches for texts without regard to case; `problems` is a list such as `01-08,12`."""

    learner: str | None = None
    problems: str | None = None
    verdict: str | None = None
    misconception: str | None = None
    section: str | None = None

    def chosen(self, records: Sequence[Record]) -> list[Record]:
        """Returns the records that match. Raises UsageError if `problems` is not valid."""
        names = {problem.name for problem in catalog.select(self.problems)} if self.problems else None
        return [
            record
            for record in records
            if _contains(record.learner, self.learner)
            and (names is None or record.problem in names)
            and _contains(record.verdict, self.verdict)
            and _contains(record.misconception, self.misconception)
        ]

    @property
    def is_empty(self) -> bool:
        return self == Filter()


@dataclass(frozen=True)
class _Stored:
    """The stored results of a class.

    Attributes:
        records: The result of each learner and problem.
        unused: The files that were not used: rows of learner, file and reason.
        regrades: The gradings that were repeated.
        changes: The marks that changed without a new submission.
        about: Lines on the name of the class, its grading and its deadlines.
        people: The learners by name.
    """

    records: Sequence[Record]
    unused: Sequence[tuple[str, str, str]]
    regrades: Sequence[Regrade]
    changes: Sequence[Change]
    about: Sequence[str]
    people: Mapping[str, Person]

    @classmethod
    def of(cls, folder: Path) -> "_Stored":
        """Reads the results in a folder. Raises UsageError if there are none."""
        stored = Results(folder)
        try:
            return cls(
                stored.private_records(), stored.unused(), stored.regrades(), stored.changes(), summary.about(stored),
                stored.people(),
            )  # fmt: skip
        finally:
            stored.close()


def lines(folder: Path, filter_: Filter) -> Iterator[str]:
    """Yields the lines to print. Raises UsageError if nothing has been graded yet, or if no result matches."""
    stored = _Stored.of(folder)
    chosen = [
        record
        for record in filter_.chosen(stored.records)
        if _in_section(stored.people, record.learner, filter_.section)
    ]
    if not chosen:
        raise UsageError(f"No result in {folder} matches." if stored.records else f"{folder} has no results yet.")
    learners = {record.learner for record in chosen}
    yield from ([f"{'; '.join(stored.about)}.", ""] if stored.about else [])
    width = min(_WIDEST_NAME, max(map(len, learners)))
    for record in chosen:
        yield from _record_lines(record, width)
    sought = learners if filter_.learner else set[str]()  # whose history is shown
    yield from _paragraph(_regraded(each) for each in stored.regrades if each.learner in sought)
    yield from _paragraph(f"Mark {each.at}: {marks.said(each)}." for each in stored.changes if each.learner in sought)
    unused = [row for row in stored.unused if filter_.is_empty or row[0] in sought]
    yield from _paragraph(map(_not_used, summary.by_learner_unused(unused)))
    yield ""
    yield _totals(chosen, len(learners))


def _paragraph(lines: Iterable[str]) -> Iterator[str]:
    """Yields a blank line and `lines`; nothing if there are none."""
    for number, line in enumerate(lines):
        yield from ([line] if number else ["", line])


def _regraded(regrade: Regrade) -> str:
    """Describes how a problem was graded before and after a change of the course."""
    after = f"{regrade.verdict_after}, {regrade.score_after}" if regrade.verdict_after else "not graded yet"
    return (
        f"Regraded {regrade.at}, problem {ProblemName(regrade.problem).label}: {regrade.verdict_before}, "
        f"{regrade.score_before} -> {after} ({regrade.because})."
    )


def _not_used(row: tuple[str, str, str]) -> str:
    """Describes which file was not used, and why. `row` is a learner, a file and a reason."""
    name, file, reason = row
    return f"Not used: {'/'.join(filter(None, [name, file]))} {reason.rstrip('.')}."


def _totals(records: Sequence[Record], learners: int) -> str:
    """Describes the numbers of learners and of results by verdict, and the sum of the marks of `records`."""
    counts = sorted(Counter(record.verdict for record in records).items())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts)
    mark, possible = total(records)
    return f"{counted(learners, 'learner')}: {verdicts}; {mark:g} of {possible} points."


def _record_lines(record: Record, width: int) -> Iterator[str]:
    score = "excused" if record.excused else f"{record.mark:g} of {record.points}"
    row = f"{record.learner:{width}}  {ProblemName(record.problem).label}  {record.verdict:13}  {score}"
    if record.mark != record.score and not record.excused:
        row += f" (raw {record.score})"
    if record.attempts > 1:
        row += f", {counted(record.attempts, 'attempt')}"
    yield row
    columns = terminal.width()
    group = f"handed in by {record.members}" if record.members else ""
    when = "; ".join(filter(None, [record.late, record.times])) if record.late else ""
    for text in (when, record.misconception, record.message, group, record.notes, record.decided):
        if text:
            yield from terminal.wrap(" ".join(text.split()), columns, indent=4)


def _in_section(people: Mapping[str, Person], learner: str, section: str | None) -> bool:
    return _contains(people[learner].section if learner in people else "", section)


def _contains(text: str, part: str | None) -> bool:
    return part is None or part.casefold() in text.casefold()
