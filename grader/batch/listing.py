"""`grade results`: the results of a class in the terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from commandline import terminal
from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch import marks, summary
from grader.batch.records import Person, Record, total
from grader.batch.results import Results
from grader.course import catalog

_WIDEST_NAME = 40


@dataclass(frozen=True)
class Filter:
    """Which results to show. Texts are searched for without regard to case; `problems` is a list such as `01-08,12`."""

    learner: str | None = None
    problems: str | None = None
    verdict: str | None = None
    misconception: str | None = None
    section: str | None = None

    def chosen(self, records: Sequence[Record]) -> list[Record]:
        """The records that match. Raises UsageError if `problems` is not valid."""
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


def lines(folder: Path, filter_: Filter) -> Iterator[str]:
    """The lines to print. Raises UsageError if nothing has been graded yet, or if no result matches."""
    stored = Results(folder)
    try:
        records, unused, regrades = stored.private_records(), stored.unused(), stored.regrades()
        changes = stored.changes()
        about, people = summary.about(stored), stored.people()
    finally:
        stored.close()
    chosen = [record for record in filter_.chosen(records) if _in_section(people, record.learner, filter_.section)]
    if not chosen:
        raise UsageError(f"No result in {folder} matches." if records else f"{folder} has no results yet.")
    learners = {record.learner for record in chosen}
    yield from ([f"{'; '.join(about)}.", ""] if about else [])
    width = min(_WIDEST_NAME, max(map(len, learners)))
    for record in chosen:
        yield from _record_lines(record, width)
    if done := [regrade for regrade in regrades if regrade.learner in learners and filter_.learner]:
        yield ""
        for regrade in done:
            after = f"{regrade.verdict_after}, {regrade.score_after}" if regrade.verdict_after else "not graded yet"
            yield (
                f"Regraded {regrade.at}, problem {ProblemName(regrade.problem).label}: {regrade.verdict_before}, "
                f"{regrade.score_before} -> {after} ({regrade.because})."
            )
    if moved := [change for change in changes if change.learner in learners and filter_.learner]:
        yield from ["", *(f"Mark {change.at}: {marks.said(change)}." for change in moved)]
    if unused := [row for row in unused if filter_.is_empty or (row[0] in learners and filter_.learner)]:
        yield ""
        for name, file, reason in summary.by_learner_unused(unused):
            yield f"Not used: {'/'.join(filter(None, [name, file]))} {reason.rstrip('.')}."
    yield ""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(r.verdict for r in chosen).items()))
    mark, possible = total(chosen)
    yield f"{counted(len(learners), 'learner')}: {verdicts}; {mark:g} of {possible} points."


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
