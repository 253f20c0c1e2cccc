"""The results of a batch: a record for each learner and problem, in SQLite and as CSV."""

import contextlib
import csv
import io
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from grader.report.json import PublicReport, dumps

DATABASE, TABLE = "results.sqlite", "results.csv"
SCHEMA = 1
COLUMNS = ("learner", "problem", "file", "verdict", "score", "points", "misconception", "message", "notes")

_TABLES = """
create table if not exists facts (name text primary key, value text not null);
create table if not exists records (
    learner text not null, problem text not null, key text not null, file text not null, verdict text not null,
    score integer not null, points integer not null, misconception text not null, message text not null,
    notes text not null, source text not null, report text not null, primary key (learner, problem)
);
"""


@dataclass(frozen=True)
class Record:
    """One learner's result for one problem. `key` is the hash of everything that decides it; `source` is the submitted text."""

    learner: str
    problem: str
    key: str
    file: str
    verdict: str
    score: int
    points: int
    misconception: str = ""
    message: str = ""
    notes: str = ""
    source: str = ""
    report: PublicReport | None = None

    def row(self) -> list[str]:
        return [_cell(getattr(self, name)) for name in COLUMNS]


class Store:
    """A results folder. Each record is written whole or not at all. Only one batch at a time can open it.

    Raises UsageError if the folder or its database cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._unlock = _locked(folder)
            self._database = sqlite3.connect(folder / DATABASE)
            self._database.row_factory = sqlite3.Row
            self._database.executescript(_TABLES)
        except FileExistsError:
            raise UsageError(f"{folder} is a file; choose a folder for the results.") from None
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
        except sqlite3.Error as error:
            raise UsageError(f"{folder / DATABASE} is not a `grade batch` results database: {error}.") from None
        schema = self.fact("schema") or str(SCHEMA)
        if schema != str(SCHEMA):
            raise UsageError(f"{folder} was created by a different version of the course; choose another folder.")
        self.remember("schema", schema)

    def close(self) -> None:
        """Closes the database and unlocks the folder."""
        self._database.close()
        self._unlock()

    def fact(self, name: str) -> str | None:
        """The stored value of that name, if there is one."""
        row = self._database.execute("select value from facts where name = ?", [name]).fetchone()
        return row[0] if row else None

    def remember(self, name: str, value: str) -> None:
        """Stores a value by name, for this and later batches."""
        with self._writing():
            self._database.execute("insert or replace into facts values (?, ?)", [name, value])

    def put(self, *records: Record) -> None:
        """Writes records in one transaction. They replace earlier ones of the same learner and problem."""
        rows = [{**vars(record), "report": dumps(record.report) if record.report else ""} for record in records]
        names = ", ".join(f":{field.name}" for field in fields(Record))
        with self._writing():
            self._database.executemany(f"insert or replace into records values ({names})", rows)  # noqa: S608  field names of Record

    def keys(self) -> dict[tuple[str, str], str]:
        """The key of each record, by learner and problem."""
        return {(a, b): c for a, b, c in self._database.execute("select learner, problem, key from records")}

    def keep_only(self, wanted: set[tuple[str, str]]) -> None:
        """Deletes all records but those of the wanted learners and problems."""
        unwanted = set(self.keys()) - wanted
        with self._writing():
            self._database.executemany("delete from records where learner = ? and problem = ?", sorted(unwanted))

    def records(self) -> list[Record]:
        """All records, by learner and problem."""
        rows = self._database.execute("select * from records order by learner, problem")
        return [Record(**{**dict(row), "report": _decoded(row["report"])}) for row in rows]

    def write_table(self) -> Path:
        """Writes all records to results.csv; returns its path."""
        path = self.folder / TABLE
        write_csv(path, COLUMNS, (record.row() for record in self.records()))
        return path

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._database:
                yield
        except sqlite3.Error as error:
            raise UsageError(
                f"{self.folder / DATABASE} cannot be written: {error}. Free some disk space, then rerun the command to resume."
            ) from None


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table, whole or not at all. Raises UsageError if it cannot be written."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    files.write(path, text.getvalue())


def _decoded(text: str) -> PublicReport | None:
    return PublicReport.decode(json.loads(text)) if text else None


def _cell(value: Any) -> str:
    """The value as text that no spreadsheet interprets as a formula. Learners can choose the text of some values."""
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _locked(folder: Path) -> Callable[[], None]:
    unlock = files.lock(folder / ".lock")
    if unlock is None:
        raise UsageError(
            f"Another `grade batch` is writing to {folder}; wait for it to finish or choose another folder."
        )
    return unlock
