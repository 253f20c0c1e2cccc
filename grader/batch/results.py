"""A results folder to read: a record for each learner and problem, in SQLite."""

import contextlib
import json
import os
import sqlite3
from dataclasses import fields
from pathlib import Path

from commandline.errors import UsageError
from grader.batch import schema
from grader.batch.records import Change, Join, Known, Mark, Person, Record, Regrade, StoredAttempt, collated
from grader.report.json_report import PublicReport

DATABASE = "results.sqlite"
OF_SLOT = "learner = ? and problem = ?"
Slot = tuple[str, str]  # learner, problem


class Results:
    """A results folder to read, also while a batch writes to it. Raises UsageError if it has no results of this
    version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / DATABASE).is_file():
            raise UsageError(f"{folder} contains no results; run `grade batch` first.")
        with contextlib.ExitStack() as undo:
            try:
                self._database = self._connected()
                undo.callback(self._database.close)
                version = self.fact("schema")
            except sqlite3.Error as error:
                raise self._not_ours(error) from None
            if version != schema.VERSION:
                raise self._other_version()
            undo.pop_all()

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(f"{(self.folder / DATABASE).resolve().as_uri()}?mode=ro", uri=True)
        database.row_factory = sqlite3.Row
        return database

    def _not_ours(self, error: sqlite3.Error) -> UsageError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return self._no_space(error)
        if not os.access(self.folder / DATABASE, os.R_OK if type(self) is Results else os.R_OK | os.W_OK):
            return self._not_permitted()
        return UsageError(f"{self.folder / DATABASE} is not a `grade batch` results database: {error}.")

    def _not_permitted(self) -> UsageError:
        return UsageError(
            f"{self.folder} belongs to another user, and you may not {'read' if type(self) is Results else 'write'} "
            f"its files. The owner can share it: `chgrp -R GROUP {self.folder}`, then `chmod -R g+rwX {self.folder}`."
        )

    def _no_space(self, error: sqlite3.Error) -> UsageError:
        return UsageError(
            f"{self.folder / DATABASE} cannot be written: {error}. Free some disk space, then rerun the command to "
            "resume."
        )

    def _other_version(self) -> UsageError:
        if self.fact("schema") in schema.MIGRATIONS:
            return UsageError(
                f"{self.folder} was created by an earlier version of the course; run `grade batch` once with your "
                "usual options."
            )
        return UsageError(f"{self.folder} was created by a different version of the course; choose another folder.")

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def fact(self, name: str) -> str | None:
        """Returns the stored value of that name, if there is one."""
        row = self._database.execute("select value from facts where name = ?", [name]).fetchone()
        return row[0] if row else None

    def attempts(self, learner: str, problem: str) -> list[StoredAttempt]:
        """Returns the learner's submissions for a problem in the order of arrival, without their reports."""
        names = [field.name for field in fields(StoredAttempt) if field.name != "report"]
        rows = self._database.execute(
            f"select {', '.join(names)} from attempts where {OF_SLOT} and attempt != '' order by number",
            (learner, problem),
        )
        return [
            StoredAttempt(
                **{**dict(row), "sources": json.loads(row["sources"]), "marked_late": bool(row["marked_late"])}
            )
            for row in rows
        ]

    def saved(self) -> int:
        """Returns the number of results that count."""
        return int(self._database.execute("select count(*) from counted").fetchone()[0])

    def regrades(self) -> list[Regrade]:
        """Returns the regrades, in order."""
        names = ", ".join(field.name for field in fields(Regrade))
        return [Regrade(*row) for row in self._database.execute(f"select {names} from regrades order by number")]

    def of_some_checks(self) -> dict[tuple[str, str, str], tuple[list[str], PublicReport]]:
        """Returns the attempts that are to be graded again with some checks only: the names of these checks, and the
        report with the others."""
        asked: dict[tuple[str, str, str], list[str]] = {}
        query = "select learner, problem, attempt, check_name from regrades where verdict_after is null order by number"
        for learner, problem, attempt, check in self._database.execute(query):
            asked.setdefault((learner, problem, attempt), []).append(check)
        found: dict[tuple[str, str, str], tuple[list[str], PublicReport]] = {}
        for slot, checks in asked.items():
            query = f"select report from attempts where {OF_SLOT} and attempt = ?"
            report = decoded(self._database.execute(query, slot).fetchone()[0])
            if report and "" not in checks:
                found[slot] = checks, report
        return found

    def people(self) -> dict[str, Person]:
        """Returns the learners by name."""
        rows = self._database.execute("select learner, ids, canvas, section from learners")
        return {
            name: Person(name, tuple(json.loads(ids)), tuple(json.loads(canvas)), section)
            for name, ids, canvas, section in rows
        }

    def changes(self) -> list[Change]:
        """Returns the marks that changed without a new submission, in order."""
        names = ", ".join(field.name for field in fields(Change))
        return [Change(*row) for row in self._database.execute(f"select {names} from changes order by number")]

    def published(self) -> dict[Slot, Mark]:
        """Returns the marks that the last batch ended with, by learner and problem."""
        rows = self._database.execute("select learner, problem, attempt, mark, verdict from marks")
        return {(learner, problem): Mark(*rest) for learner, problem, *rest in rows}

    def to_send(self) -> list[tuple[str, str, float, str]]:
        """Returns the published marks that a course system gets: the learner, the problem, the mark, and the time of
        the submission, which is empty if nothing was submitted.

        What a learner is excused from is left out, and what nobody submitted or decided.
        """
        rows = self._database.execute(
            "select marks.learner, marks.problem, marks.mark, attempts.submitted from marks "
            "join attempts using (learner, problem, attempt) left join counted using (learner, problem) "
            "where not coalesce(counted.excused, 0) and (marks.attempt != '' or marks.mark > 0)"
        )
        return [tuple(row) for row in rows]

    def marks(self) -> dict[Slot, Mark]:
        """Returns the marks as they are now, by learner and problem."""
        rows = self._database.execute("select learner, problem, attempt, adjusted, verdict from records")
        return {(learner, problem): Mark(*rest) for learner, problem, *rest in rows}

    def arrived(self, learner: str, problem: str) -> list[str]:
        """Returns the attempts of a learner for a problem in the order of their arrival."""
        rows = self._database.execute(
            f"select attempt from attempts where {OF_SLOT} order by number", (learner, problem)
        )
        return [attempt for (attempt,) in rows]

    def sent(self, course: str, assignment: str) -> dict[str, float]:
        """Returns the marks of an assignment that a course system was sent, by its users."""
        query = "select user, points from sent where course = ? and assignment = ?"
        return dict(self._database.execute(query, (course, assignment)).fetchall())

    def comments(self, course: str, assignment: str) -> dict[str, str]:
        """Returns the digests of the comments of an assignment that a course system was sent, by its users."""
        query = "select user, digest from comments where course = ? and assignment = ?"
        return dict(self._database.execute(query, (course, assignment)).fetchall())

    def joins(self) -> list[Join]:
        """Returns the joins of learners who turned out to be the same, in order."""
        rows = self._database.execute("select at, learner, ids, joined, because from joins order by number")
        return [Join(at, learner, tuple(json.loads(ids)), joined, why) for at, learner, ids, joined, why in rows]

    def problems(self) -> list[str]:
        """Returns the names of the problems that have results, sorted."""
        return [name for (name,) in self._database.execute("select distinct problem from attempts order by problem")]

    def submitters(self) -> dict[str, set[str]]:
        """Returns the learners with a stored submission, and the problems that they have one for."""
        found: dict[str, set[str]] = {}
        for learner, problem in self._database.execute(
            "select distinct learner, problem from attempts where attempt != ''"
        ):
            found.setdefault(learner, set()).add(problem)
        return found

    def known(self) -> list[Known]:
        """Returns the solutions that learners can have found, beside the course's own."""
        rows = self._database.execute("select problem, name, sequences from known")
        return [Known(problem, name, frozenset(json.loads(sequences))) for problem, name, sequences in rows]

    def unused(self) -> list[tuple[str, str, str]]:
        """Returns the files that were not used: (learner, file, reason)."""
        return [tuple(row) for row in self._database.execute("select learner, file, reason from unused")]

    def records(self) -> list[Record]:
        """Returns the records that count, by learner and problem, redacted of anything that could identify a secret
        case."""
        return [record.redacted() for record in self.private_records()]

    def private_records(self) -> list[Record]:
        """Returns the same with the numbers of secret cases, and text of the processes that ran them. For the teacher
        only."""
        rows = self._database.execute("select * from records").fetchall()
        rows.sort(key=lambda row: (collated(row["learner"]), row["problem"]))
        return [_record(row) for row in rows]

    def record(self, learner: str, problem: str) -> Record | None:
        """Returns the record of a learner for a problem, redacted like `records`; None if there is none."""
        row = self._database.execute(f"select * from records where {OF_SLOT}", (learner, problem)).fetchone()
        return _record(row).redacted() if row else None

    def by_time(self) -> dict[str, tuple[str, int, int]]:
        """Returns the verdict, the score and the most points of all stored submissions, by their times."""
        rows = self._database.execute("select submitted, verdict, score, points from attempts where attempt != ''")
        return {time: (verdict, score, points) for time, verdict, score, points in rows}

    def to_regrade(self) -> set[str]:
        """Returns the times of the stored submissions whose regrade is not done yet."""
        rows = self._database.execute(
            "select submitted from attempts join regrades using (learner, problem, attempt) where verdict_after is null"
        )
        return {time for (time,) in rows}


def _record(row: sqlite3.Row) -> Record:
    names = {field.name for field in fields(Record)} - {"source", "report", "excused"}
    return Record(
        **{name: row[name] for name in names}, source=json.loads(row["sources"]).get(row["problem"], ""),
        report=decoded(row["report"]), excused=bool(row["excused"]),
    )  # fmt: skip


def decoded(text: str) -> PublicReport | None:
    """Returns a stored report; None if there is none."""
    return PublicReport.decode(json.loads(text)) if text else None
