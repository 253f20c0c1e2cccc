"""A results folder to write, in SQLite and as CSV."""

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, Literal

from commandline import files
from commandline.errors import UsageError
from commandline.problem_name import ProblemName
from grader.batch import schema
from grader.batch.deadlines import Attempt, Settled
from grader.batch.records import (
    COLUMNS,
    Change,
    Known,
    Person,
    Regrade,
    StoredAttempt,
    whole,
)
from grader.batch.results import DATABASE, OF_SLOT, Results, Slot, decoded
from grader.batch.tables import write_csv
from grader.report.json_report import dumps

TABLE, UNUSED, REGRADES = "results.csv", "unused.csv", "regrades.csv"
JOINS, CHANGES = "joins.csv", "changes.csv"

# Decides what counts among all attempts of a learner, by problem.
Settle = Callable[[str, list[Attempt]], Mapping[str, Settled]]
Kind = Literal["hand", "least", "kept"]


class Store(Results):
    """A results folder to write. Each result is written whole or not at all. Only one batch at a time can open it.

    Raises UsageError if the folder or its database cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with contextlib.ExitStack() as undo:
            try:
                folder.mkdir(0o700, parents=True, exist_ok=True)  # it holds marks, and numbers of secret cases
                self._unlock = _locked(folder)
                undo.callback(self._unlock)
                self._database = self._connected()
                undo.callback(self._database.close)
                self._database.execute(schema.FACTS)
                version = self.fact("schema") or schema.VERSION
                while version in schema.MIGRATIONS:
                    self._database.executescript(f"begin; {schema.MIGRATIONS[version]} commit;")
                    version = self.fact("schema") or ""
                if version != schema.VERSION:
                    raise self._other_version()
                self._database.executescript(schema.TABLES)
            except FileExistsError:
                raise UsageError(f"{folder} is a file; choose a folder for the results.") from None
            except PermissionError:
                raise self._not_permitted() from None
            except OSError as error:
                raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
            except sqlite3.Error as error:
                raise self._not_ours(error) from None
            self.remember("schema", version)
            undo.pop_all()

    @classmethod
    def existing(cls, folder: Path) -> "Store":
        """Opens the results of a folder for writing. Raises UsageError if it has none."""
        Results(folder).close()
        return cls(folder)

    def _connected(self) -> sqlite3.Connection:
        path = self.folder / DATABASE
        if not path.exists():
            path.touch(0o600)  # also in a folder that others can read
            path.chmod(files.private_mode(self.folder))
        database = sqlite3.connect(path)
        database.row_factory = sqlite3.Row
        return database

    def close(self) -> None:
        """Closes the database and unlocks the folder."""
        super().close()
        self._unlock()

    def remember(self, name: str, value: str) -> None:
        """Stores a value by name, for this and later batches."""
        with self._writing():
            self._database.execute("insert or replace into facts values (?, ?)", [name, value])

    def put(self, settle: Settle, *attempts: StoredAttempt) -> None:
        """Writes attempts in one transaction, and decides again which attempts of their learners count. Replaces
        earlier results of the same attempts."""
        with self._writing():
            for attempt in attempts:
                slot = (attempt.learner, attempt.problem)
                known = self._database.execute(
                    f"select number from attempts where {OF_SLOT} and attempt = ?", (*slot, attempt.attempt)
                )
                number = (known.fetchone() or self._next(*slot))[0]
                report = dumps(attempt.report) if attempt.report else ""
                row = {
                    **vars(attempt),
                    "number": number,
                    "sources": json.dumps(dict(attempt.sources)),
                    "report": report,
                }
                self._insert("attempts", **row)
                self._database.execute(
                    "update regrades set verdict_after = ?, score_after = ? "
                    f"where {OF_SLOT} and attempt = ? and verdict_after is null",
                    (attempt.verdict, attempt.score, *slot, attempt.attempt),
                )
            for learner in {attempt.learner for attempt in attempts}:
                self._count(settle, learner)

    def _next(self, learner: str, problem: str) -> tuple[int]:
        query = f"select coalesce(max(number), 0) + 1 from attempts where {OF_SLOT}"
        (number,) = self._database.execute(query, (learner, problem)).fetchone()
        return (number,)

    def _insert(self, table: str, **values: Any) -> None:
        """Writes a row. Text that is not Unicode, which SQLite refuses, is replaced."""
        row = {name: _encodable(value) for name, value in values.items()}
        names = ", ".join(row)
        self._database.execute(
            f"insert or replace into {table} ({names}) values ({', '.join(f':{name}' for name in row)})", row
        )

    def _count(self, settle: Settle, learner: str) -> None:
        rows = self._database.execute(
            "select problem, attempt, number, score, submitted, marked_late from attempts where learner = ?", [learner]
        ).fetchall()
        real = {row["problem"] for row in rows if row["attempt"]}
        attempts = [
            Attempt(
                row["problem"], row["attempt"], row["number"], row["score"],
                datetime.fromisoformat(row["submitted"]) if row["submitted"] else None, bool(row["marked_late"]),
            )
            for row in rows
            if row["attempt"] or row["problem"] not in real
        ]  # fmt: skip
        self._database.execute("delete from counted where learner = ?", [learner])
        for problem, settled in settle(learner, attempts).items():
            self._insert(
                "counted",
                learner=learner,
                problem=problem,
                attempt=settled.id,
                adjusted=settled.adjusted,
                late=settled.lateness,
                times=settled.times,
                excused=settled.excused,
            )

    def apply_points(self, points: Mapping[str, Mapping[str, int]]) -> None:
        """Updates every stored result to the current points of its checks, by problem and check.

        The database stores which checks passed. A result whose checks are no longer the problem's keeps its points.
        """
        with self._writing():
            rows = self._database.execute("select learner, problem, attempt, report from attempts where report != ''")
            for row in rows.fetchall():
                report, now = decoded(row["report"]), points.get(row["problem"], {})
                if report is None or {check.name for check in report.checks} != now.keys():
                    continue
                pointed = report.with_points(now)
                if pointed != report:
                    self._database.execute(
                        f"update attempts set score = ?, points = ?, report = ? where {OF_SLOT} and attempt = ?",
                        (pointed.score, pointed.points, dumps(pointed), row["learner"], row["problem"], row["attempt"]),
                    )

    def settle(self, settle: Settle, learners: Iterable[str]) -> None:
        """Decides again which attempts of these learners count. No attempt of any other learner counts then."""
        with self._writing():
            self._database.execute("delete from counted")
            for learner in learners:
                self._count(settle, learner)

    def publish(self, changes: Iterable[Change] = (), only: Slot | None = None) -> None:
        """Stores the current marks, or the one of the slot `only`, as published. Adds `changes` to the list of
        changes."""
        where = f" where {OF_SLOT}" if only else ""
        with self._writing():
            self._database.execute(
                f"insert or replace into marks select learner, problem, attempt, adjusted, verdict from records{where}",
                only or (),
            )
            for change in changes:
                self._insert("changes", **vars(change))

    def publish_new(self) -> None:
        """Stores the current marks for which no published mark is stored."""
        with self._writing():
            self._database.execute(
                "insert or ignore into marks select learner, problem, attempt, adjusted, verdict from records"
            )

    def decide(self, learner: str, problem: str, kind: Kind, mark: float, because: str, attempt: str = "") -> None:
        """Stores the decision on a mark, in place of an earlier one; see `schema.py` for the kinds."""
        with self._writing():
            self._insert(
                "decided", learner=learner, problem=problem, kind=kind, mark=mark, attempt=attempt, because=because
            )

    def undecide(self, learner: str, problem: str) -> None:
        """Removes the decision on a mark, so that the result of grading counts."""
        with self._writing():
            self._database.execute(f"delete from decided where {OF_SLOT}", (learner, problem))

    def remember_sent(self, course: str, assignment: str, marks: Mapping[str, float]) -> None:
        """Stores which marks of an assignment a course system has from here, by its users."""
        with self._writing():
            for user, points in marks.items():
                self._insert("sent", course=course, assignment=assignment, user=user, points=points)

    def remember_comments(self, course: str, assignment: str, digests: Mapping[str, str]) -> None:
        """Stores which comments of an assignment a course system has from here, by its users."""
        with self._writing():
            for user, digest in digests.items():
                self._insert("comments", course=course, assignment=assignment, user=user, digest=digest)

    def copy_result(self, attempt: StoredAttempt, to: StoredAttempt) -> None:
        """Writes an attempt with the result of another one that holds the same code and was submitted at another
        time."""
        slot = (attempt.learner, attempt.problem)
        query = f"select * from attempts where {OF_SLOT} and attempt = ?"
        row = dict(self._database.execute(query, (*slot, attempt.attempt)).fetchone())
        with self._writing():
            names = ("attempt", "file", "notes", "submitted", "marked_late", "members")
            other = {name: getattr(to, name) for name in names}
            self._insert("attempts", **{**row, **other, "number": self._next(*slot)[0]})

    def make_newest(self, learner: str, problem: str, attempt: str) -> None:
        """Moves an attempt to the end of the order of arrival for its problem."""
        (number,) = self._next(learner, problem)
        with self._writing():
            self._database.execute(
                f"update attempts set number = ? where {OF_SLOT} and attempt = ? and number < ?",
                (number, learner, problem, attempt, number - 1),
            )

    def request_regrade(self, learner: str, problem: str, because: str, check: str = "") -> int:
        """Makes the next batch grade a learner's submissions for a problem again, all checks or one, and records why.

        Returns the number of submissions. Asking again before that is done changes nothing.
        """
        found = self.attempts(learner, problem)
        with self._writing():
            for attempt in found:
                slot = (learner, problem, attempt.attempt)
                query = (
                    f"select 1 from regrades where {OF_SLOT} and attempt = ? and check_name = ? and verdict_after "
                    f"is null"
                )
                if self._database.execute(query, (*slot, check)).fetchone():
                    continue
                self._insert(
                    "regrades",
                    at=datetime.now(UTC).isoformat(timespec="seconds"),
                    learner=learner,
                    problem=problem,
                    attempt=attempt.attempt,
                    because=because,
                    verdict_before=attempt.verdict,
                    score_before=attempt.score,
                    check_name=check,
                )
                self._database.execute(f"update attempts set key = '' where {OF_SLOT} and attempt = ?", slot)
        return len(found)

    def add(self, other: Results) -> None:
        """Copies all data of the learners in another folder's results. None of them may be in this one."""
        self._database.execute(
            "attach database ? as other", [f"{(other.folder / DATABASE).resolve().as_uri()}?mode=ro"]
        )
        try:
            with self._writing():
                for table in schema.TO_ADD:
                    found = self._database.execute(
                        f"select name from pragma_table_info('{table}') where name != 'number'"
                    )
                    names = ", ".join(name for (name,) in found)
                    number = ", number" if table == "attempts" else ""
                    self._database.execute(
                        f"insert or ignore into {table} ({names}{number}) select {names}{number} from other.{table}"
                    )
                self._database.execute(
                    "insert or ignore into facts select * from other.facts where name like 'semantics:%' or name like "
                    "'points:%'"
                )
        finally:
            self._database.execute("detach database other")

    def forget(self, person: Person) -> None:
        """Deletes all data of a learner, also from the free pages of the file."""
        with self._writing():
            for table in schema.WITH_A_LEARNER:
                self._database.execute(f"delete from {table} where learner = ?", [person.learner])
            self._database.execute("delete from joins where joined = ?", [person.learner])
            names = {person.learner, *person.ids}
            for one in self.known():
                if names & {*PurePath(one.name).parts}:  # the learner's of an earlier year
                    self._database.execute("delete from known where name = ?", [one.name])
            for user in person.canvas:
                for table in ("sent", "comments"):
                    self._database.execute(f"delete from {table} where user = ?", [user])
        self._database.execute("vacuum")

    def move(self, problem: str, to: str) -> None:
        """Renames a problem. If there are results under both names, those of the old name come first."""
        names = {"old": problem, "new": to}
        with self._writing():
            rows = self._database.execute("select * from attempts where problem = ?", [problem]).fetchall()
            for row in map(dict, rows):
                sources = {to if name == problem else name: text for name, text in json.loads(row["sources"]).items()}
                report = decoded(row["report"])
                known = StoredAttempt(
                    row["learner"], to, "", "", row["file"], "", 0, 0, message=row["message"], sources=sources,
                    submitted=row["submitted"], marked_late=bool(row["marked_late"]),
                )  # fmt: skip
                attempt = known.identified().attempt if row["attempt"] else ""
                self._database.execute(
                    f"update attempts set sources = ?, report = ? where {OF_SLOT} and attempt = ?",
                    (json.dumps(sources), dumps(replace(report, problem=ProblemName(to))) if report else "",
                     row["learner"], problem, row["attempt"]),
                )  # fmt: skip
                for table in schema.WITH_AN_ATTEMPT:
                    self._database.execute(
                        f"update or ignore {table} set attempt = ? where {OF_SLOT} and attempt = ?",
                        (attempt, row["learner"], problem, row["attempt"]),
                    )
            for statement in schema.MOVING:
                self._database.execute(statement, names)

    def rename(self, learner: str, to: str) -> None:
        """Renames a learner. If the new name is taken, that learner gets all attempts, and the better marks count."""
        with self._writing():
            self._rename(learner, to)

    def join(self, learner: str, to: str, ids: Iterable[str], because: str) -> None:
        """Joins two learners for good: from now on, the ids of the first one mean the second one."""
        with self._writing():
            at = datetime.now(UTC).isoformat(timespec="seconds")
            self._insert("joins", at=at, learner=learner, ids=json.dumps([*ids]), joined=to, because=because)
            self._rename(learner, to)

    def _rename(self, learner: str, to: str) -> None:
        people = self.people()
        if person := people.get(learner):
            known = people.get(to, Person(to)).knowing(person)
            self._put_person(known)
        names = {"old": learner, "new": to}
        for statement in schema.RENAMING:
            self._database.execute(statement, names)

    def _put_person(self, person: Person) -> None:
        ids, canvas = json.dumps(person.ids), json.dumps(person.canvas)
        self._insert("learners", learner=person.learner, ids=ids, canvas=canvas, section=person.section)

    def remember_intake(self, people: Iterable[Person], unused: Iterable[tuple[str, str, str]]) -> None:
        """Stores who the learners are, and which files were not used: (learner, file, reason)."""
        with self._writing():
            self._database.execute("delete from learners")
            self._database.execute("delete from unused")
            for person in people:
                self._put_person(person)
            for learner, file, reason in unused:
                self._insert("unused", learner=learner, file=file, reason=reason)

    def remember_known(self, solutions: Iterable[Known]) -> None:
        """Stores the solutions that learners can have found, in place of earlier ones."""
        with self._writing():
            self._database.execute("delete from known")
            for one in solutions:
                self._insert("known", problem=one.problem, name=one.name, sequences=json.dumps(sorted(one.sequences)))

    def write_tables(self) -> list[Path]:
        """Writes results.csv, unused.csv and, if there is anything in them, regrades.csv, joins.csv and changes.csv.

        Returns their paths.
        """
        write_csv(self.folder / TABLE, COLUMNS, (record.row() for record in self.records()))
        write_csv(self.folder / UNUSED, ("learner", "file", "reason"), self.unused())
        paths = [self.folder / TABLE, self.folder / UNUSED]
        if regrades := self.regrades():
            names = [field.name for field in fields(Regrade)]
            write_csv(self.folder / REGRADES, names, [list(vars(regrade).values()) for regrade in regrades])
            paths.append(self.folder / REGRADES)
        if joins := self.joins():
            rows = ((join.at, join.learner, join.joined, join.because) for join in joins)
            write_csv(self.folder / JOINS, ("at", "learner", "joined", "because"), rows)
            paths.append(self.folder / JOINS)
        if changes := self.changes():
            write_csv(
                self.folder / CHANGES, [field.name for field in fields(Change)], (_change_row(each) for each in changes)
            )
            paths.append(self.folder / CHANGES)
        return paths

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._database:
                yield
        except sqlite3.Error as error:
            raise self._no_space(error) from None


def _change_row(change: Change) -> list[Any]:
    return [whole(value) if isinstance(value, float) else value for value in vars(change).values()]


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _locked(folder: Path) -> Callable[[], None]:
    unlock = files.lock(folder / ".lock", files.private_mode(folder))
    if unlock is None:
        raise UsageError(
            f"Another `grade batch` is writing to {folder}; wait for it to finish or choose another folder."
        )
    return unlock
