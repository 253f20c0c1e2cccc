"""The files that a batch writes beside its tables: gradebooks, reports, the summary, and feedback for learners."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from commandline import files
from commandline.problem_name import ProblemName
from grader.batch import class_page, feedback, gradebook, reveal, summary
from grader.batch.deadlines import Deadlines
from grader.batch.faults import Faults
from grader.batch.gradebook import Assignment
from grader.batch.intake import Intake
from grader.batch.options import BatchOptions
from grader.batch.records import Record, by_learner
from grader.batch.roster import Enrollment, Roster
from grader.batch.store import Store
from grader.report.redacted import Reveal


class Outputs:
    """Writes the files of a batch whose marks are published. Methods yield lines for the terminal: mostly the files."""

    def __init__(
        self,
        options: BatchOptions,
        store: Store,
        intake: Intake,
        rules: Deadlines | None,
        enrollment: Enrollment | None,
        faults: Faults,
    ) -> None:
        self._options, self._store, self._intake, self._faults = options, store, intake, faults
        self._enrollment = enrollment
        self.records, people = store.records(), list(intake.people.values())
        self._over = reveal.past_due(self.records, people, rules)
        self.tells: Mapping[tuple[str, str], Reveal] = reveal.levels(
            self.records, self._over, options.reveal, options.reveal_after_due
        )
        self._shown = [record.told(self.tells[record.learner, record.problem]) for record in self.records]

    @cached_property
    def _summary(self) -> summary.Summary:
        return summary.of(self._store)

    def write_gradebooks(self, enrolled: Roster | None) -> Iterator[str]:
        """Writes the gradebooks and reports that were asked for, and that of a roster."""
        not_yet = sorted({ProblemName(name).label for (_, name), past in self._over.items() if not past})
        if self._options.show_cases and not_yet:
            labels = ", ".join(not_yet)
            yield f"Note: the pages show secret cases of problem {labels}, which can still be handed in on time."
        books, folder = list[Path](), self._store.folder
        assignments = [Assignment.of(problem) for problem in self._intake.problems]
        for name in self._options.formats:
            if name in gradebook.GRADEBOOKS:
                marked = _raw_and_adjusted(self._on_roster(), folder, name)
                books += [
                    gradebook.GRADEBOOKS[name](records, self._intake.people, assignments, path)
                    for path, records in marked
                ]
            elif name != feedback.FORMAT:
                yield str(gradebook.write_reports(self._shown, folder, name, self._faults, self._after_due()))
        if enrolled and self._enrollment:
            books += [
                gradebook.write_export(enrolled, self._enrollment, records, assignments, path)
                for path, records in _raw_and_adjusted(self.records, folder, "gradebook")
            ]
        yield from map(str, books)
        for_moodle = [folder / gradebook.MOODLE] * (feedback.FORMAT in self._options.formats)
        yield from _set_aside(folder, [*books, *for_moodle])

    def write_summary(self) -> Iterator[str]:
        """Writes the summary and the page of the class."""
        yield from map(str, summary.write_all(self._summary, class_page.document(self._summary), self._store.folder))
        yield from summary.likeness_lines(self._summary)

    def write_feedback(self, articles: Mapping[tuple[str, str], str], participants: Mapping[str, str]) -> Iterator[str]:
        """Writes the feedback for learners. `articles` are those on failing cases, `participants` their numbers in
        Moodle."""
        told = replace(self._summary, records=by_learner(self._shown))
        if feedback.FORMAT in self._options.formats:
            yield str(feedback.write_moodle(told, articles, participants, self._store.folder, self._faults))
        if self._options.feedback:
            yield str(feedback.write(told, articles, self._options.feedback, self._faults))

    def verdicts(self) -> str:
        """Returns how many submissions have each verdict, as a sentence."""
        return ", ".join(f"{count} {verdict}" for verdict, count in sorted(self._summary.verdicts.items())) + "."

    def _on_roster(self) -> list[Record]:
        """Returns the records of those who are on the roster; all, if there is none."""
        enrolled = set(self._enrollment.learner_of.values() if self._enrollment else self._intake.learners)
        return [record for record in self.records if record.learner in enrolled]

    def _after_due(self) -> list[Record]:
        """Returns the records as learners may read them after the due date."""
        later = self._options.reveal_after_due
        return [record.told(later or self.tells[record.learner, record.problem]) for record in self.records]


def _set_aside(folder: Path, written: Sequence[Path]) -> Iterator[str]:
    """Moves the gradebooks that an earlier batch wrote and this one did not, so that nobody imports them. Yields a line
    on each."""
    for path in gradebook.files_in(folder):
        if path not in written:
            files.replace(folder / gradebook.EARLIER / path.name, path.read_bytes())
            path.unlink()
            yield f"{path.name} is of an earlier batch, and is now {Path(gradebook.EARLIER) / path.name}."


def _raw_and_adjusted(records: Sequence[Record], folder: Path, name: str) -> Iterator[tuple[Path, Sequence[Record]]]:
    """Yields the file with the marks and, if lateness has changed any, one with the raw scores."""
    yield folder / f"{name}.csv", records
    if any(record.mark != record.score for record in records):
        yield folder / f"{name}-raw.csv", [replace(record, adjusted=None) for record in records]
