"""Finds the submissions of a class: which learner, which problem, which file. Reads unmodified exports of course
systems."""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from grader.batch import reader
from grader.batch.collect import IntakeItem, UnusedFile
from grader.batch.faults import Faults
from grader.batch.records import Person, collated
from grader.course import catalog
from grader.judge.submission import Submission
from grader.problem import Problem


@dataclass
class Intake:
    """The submissions of a class.

    Attributes:
        layout: The system whose layout was recognized.
        people: The learners by name, with the ids that the export gives.
        problems: The problems to grade.
        items: The work of each learner on each problem.
        unused: The files that are in no item, each with the reason.
        notes: Sentences that concern the whole class.
    """

    layout: str
    people: dict[str, Person]
    problems: Sequence[Problem]
    items: list[IntakeItem]
    unused: list[UnusedFile]
    notes: list[str] = field(default_factory=list)

    @property
    def learners(self) -> list[str]:
        """The learners in order."""
        return sorted(self.people, key=collated)

    def rename(self, learner: str, to: str) -> None:
        """Renames a learner. If the new name is taken, the two become one learner, with the files of both."""
        person = self.people.pop(learner)
        other = self.people.get(to, Person(to))
        self.people[to] = other.knowing(person)
        self.items[:] = [replace(item, learner=to) if item.learner == learner else item for item in self.items]
        self.unused[:] = [replace(file, learner=to) if file.learner == learner else file for file in self.unused]


def read(source: Path, problems: Sequence[Problem] | None, faults: Faults) -> Intake:
    """Reads the submissions for these problems from a folder or an archive, in processes of their own
    (`grader.batch.reader`).

    Without `problems`, takes all problems that at least one learner submitted a file for, by the file's name; if no
    file has such a name, by its definitions. Raises UsageError if there is no learner or no submission.
    """
    intake: Intake | None = None
    for message in reader.messages(source, "submissions", [problem.name for problem in problems or ()]):
        if intake is None:
            intake = Intake(
                message["layout"],
                {name: Person(name, tuple(ids), tuple(canvas)) for name, ids, canvas in message["people"]},
                problems or [catalog.load(name) for name in message["problems"]],
                [],
                [UnusedFile("", path, "is in no learner's folder") for path in message["loose"]],
                message["notes"],
            )
            continue
        learner, failed = message["learner"], message["failed"]
        if message["fault"]:
            failed = faults.add_text(learner, message["fault"], message["error"])
        if failed:
            intake.notes.append(f"no file of {learner} is graded: {failed.replace('its files', 'they', 1)}")
            intake.items += [IntakeItem(learner, problem.name, refused=failed) for problem in intake.problems]
            continue
        items, unused = message["value"]
        intake.items += map(_decoded, items)
        intake.unused += [UnusedFile(*row) for row in unused]
    assert intake is not None  # noqa: S101  the reader says so first
    order = {learner: place for place, learner in enumerate(intake.learners)}
    intake.items.sort(key=lambda item: order[item.learner])
    intake.unused.sort(key=lambda file: order.get(file.learner, -1))
    by_folded_name: dict[str, list[str]] = defaultdict(list)
    for name in intake.learners:
        by_folded_name[unicodedata.normalize("NFKC", name).casefold().strip()].append(name)
    for spellings in by_folded_name.values():
        if len(spellings) > 1:
            intake.notes.append(f"{' and '.join(map(repr, spellings))} may be the same learner")
    return intake


def _decoded(row: dict[str, Any]) -> IntakeItem:
    """Returns an item from the JSON values of `grader.batch.collect`."""
    source, time = row["submission"], row["submitted"]
    return IntakeItem(**{
        **row, "submission": Submission(*source) if source else None, "notes": tuple(row["notes"]),
        "submitted": datetime.fromisoformat(time) if time else None,
    })  # fmt: skip
