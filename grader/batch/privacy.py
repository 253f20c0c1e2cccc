"""Shows a learner, or deletes, the data that a results folder has about them."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grader.batch import class_page, gradebook, identity, summary
from grader.batch.command import LOG
from grader.batch.records import COLUMNS, Record
from grader.batch.results import Results
from grader.batch.store import Store
from grader.report.formats import FORMATS

_OF_AN_ATTEMPT = ("problem", "attempt", "file", "verdict", "score", "points", "submitted", "sources", "members")


def exported(folder: Path, word: str) -> str:
    """Returns all that a results folder knows of a learner, as JSON, but nothing of secret cases. Raises UsageError."""
    stored = Results(folder)
    try:
        person = identity.named(stored, word)
        own = [record for record in stored.records() if record.learner == person.learner]
        problems = sorted(stored.submitters().get(person.learner, set()))
        attempts = [attempt for problem in problems for attempt in stored.attempts(person.learner, problem)]
        known: dict[str, Any] = {
            "person": asdict(person),
            "results": [dict(zip(COLUMNS, record.row(), strict=True)) for record in own],
            "attempts": [{name: getattr(attempt, name) for name in _OF_AN_ATTEMPT} for attempt in attempts],
            "changes": [vars(change) for change in stored.changes() if change.learner == person.learner],
            "regrades": [vars(regrade) for regrade in stored.regrades() if regrade.learner == person.learner],
            "unused": [row[1:] for row in stored.unused() if row[0] == person.learner],
        }
    finally:
        stored.close()
    return json.dumps(known, ensure_ascii=False, indent=2)


def forget(folder: Path, word: str) -> str:
    """Deletes a learner from a results folder, and lists the places that it could not reach. Raises UsageError."""
    store = Store.existing(folder)
    try:
        person = identity.named(store, word)
        learner, records = person.learner, store.records()
        store.forget(person)
        for path in _files_about(folder, learner, records):
            path.unlink(missing_ok=True)
        store.write_tables()
        left = summary.of(store)
        summary.write_all(left, class_page.document(left), folder)
    finally:
        store.close()
    return (
        f"{learner!r} is deleted from {folder}, with all attempts, marks and reports. Gradebooks are deleted, too: the "
        "next `grade batch` writes them again. Pages that --feedback wrote elsewhere, and the submissions, are yours "
        "to delete."
    )


def _files_about(folder: Path, learner: str, records: Iterable[Record]) -> list[Path]:
    """Returns the files of a results folder that name a learner, without those that are written again."""
    name = gradebook.filenames({record.learner for record in records} | {learner})[learner]
    reports = [folder / format_ / f"{name}.{FORMATS[format_][0]}" for format_ in FORMATS]
    books = [*gradebook.files_in(folder), *gradebook.files_in(folder / gradebook.EARLIER)]
    log = folder / LOG
    logs = [log] if log.is_file() and learner in log.read_text(encoding="utf-8", errors="replace") else []
    return [*reports, *books, *logs, *(folder / table for table in ("changes.csv", "regrades.csv", "joins.csv"))]
