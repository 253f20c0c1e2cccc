"""The texts that a learner has saved, with their verdicts, the last exhibits of plays, and the time spent.

A small SQLite file in the workspace.
"""

import contextlib
import datetime
import json
import sqlite3
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path

from commandline.errors import UsageError
from grader.exhibits import Exhibit, ExhibitError, Progress, decode, encode

FILENAME = ".studio.sqlite"
_KEPT = 500  # attempts on one problem; the oldest are forgotten
_SCHEMA = """
create table if not exists attempt (
    id integer primary key, problem text not null, saved_at text not null, text blob not null,
    verdict text not null default '', score integer not null default 0, points integer not null default 0,
    cause text not null default ''
);
create index if not exists attempt_of_problem on attempt (problem, id);
create table if not exists activity (
    day text not null, problem text not null, seconds real not null, primary key (day, problem)
) without rowid;
create table if not exists exhibit (problem text primary key, data blob not null) without rowid;
"""


@dataclass(frozen=True)
class Attempt:
    """A text that was saved.

    Attributes:
        id: Its number.
        saved_at: When it was saved.
        verdict: The verdict; empty if it was not graded.
        score: The points reached.
        points: The most points.
        cause: The misconception that was named.
    """

    id: int
    saved_at: datetime.datetime
    verdict: str
    score: int
    points: int
    cause: str


class History:
    """The history of a workspace. Can be used from any thread."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError if the file is not such a history."""
        path = folder / FILENAME
        if path.is_symlink():
            raise UsageError(f"{path} is a symbolic link; replace it with a copy of the file.")
        self._lock = threading.Lock()
        try:
            with contextlib.ExitStack() as undo:
                self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
                undo.callback(self._db.close)
                self._db.execute("pragma journal_mode = wal")
                self._db.execute("pragma synchronous = normal")
                self._db.executescript(_SCHEMA)
                undo.pop_all()
        except sqlite3.DatabaseError as error:
            raise UsageError(f"{path} is not the studio's history ({error}); move it away.") from None

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def keep(self, problem: str, text: str) -> int:
        """Keeps a saved text and returns the number of the attempt. The same text twice in a row is one attempt."""
        data = zlib.compress(text.encode())
        now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        with self._lock:
            last = self._db.execute(
                "select id, text from attempt where problem = ? order by id desc limit 1", [problem]
            ).fetchone()
            if last and last[1] == data:
                return int(last[0])
            row = self._db.execute(
                "insert into attempt (problem, saved_at, text) values (?, ?, ?) returning id", [problem, now, data]
            ).fetchone()
            self._db.execute(
                "delete from attempt where problem = ? and id <= "
                "(select id from attempt where problem = ? order by id desc limit 1 offset ?)",
                [problem, problem, _KEPT],
            )
        return int(row[0])

    def attempt_with(self, problem: str, text: str) -> int:
        """Returns the number of the newest attempt with this text, which is kept if there is none. Others may have been
        saved since."""
        data = zlib.compress(text.encode())
        with self._lock:
            row = self._db.execute(
                "select max(id) from attempt where problem = ? and text = ?", [problem, data]
            ).fetchone()
        return self.keep(problem, text) if row[0] is None else int(row[0])

    def grade(self, attempt: int, verdict: str, score: int, points: int, cause: str) -> None:
        """Adds the verdict on an attempt."""
        with self._lock:
            self._db.execute(
                "update attempt set verdict = ?, score = ?, points = ?, cause = ? where id = ?",
                [verdict, score, points, cause, attempt],
            )

    def attempts(self, problem: str) -> list[Attempt]:
        """Returns the attempts on a problem, the newest first."""
        query = "select id, saved_at, verdict, score, points, cause from attempt where problem = ? order by id desc"
        with self._lock:
            rows = self._db.execute(query, [problem]).fetchall()
        return [Attempt(row[0], datetime.datetime.fromisoformat(row[1]), *row[2:]) for row in rows]

    def text(self, problem: str, attempt: int) -> str | None:
        """Returns the text of an attempt; None if there is no such attempt on this problem."""
        with self._lock:
            row = self._db.execute(
                "select text from attempt where problem = ? and id = ?", [problem, attempt]
            ).fetchone()
        return zlib.decompress(row[0]).decode() if row else None

    def show(self, problem: str, exhibit: Exhibit) -> None:
        """Keeps the last exhibit of a play, in place of the one before."""
        data = zlib.compress(json.dumps(encode(exhibit)).encode())
        with self._lock:
            self._db.execute("insert or replace into exhibit values (?, ?)", [problem, data])

    def exhibits(self) -> dict[str, Exhibit]:
        """Returns the last exhibit that was shown, by problem. Leaves out exhibits of another version that this one
        cannot read."""
        with self._lock:
            rows = self._db.execute("select problem, data from exhibit").fetchall()
        found = dict[str, Exhibit]()
        for problem, data in rows:
            with contextlib.suppress(ExhibitError, ValueError, zlib.error):
                exhibit = decode(json.loads(zlib.decompress(data)))
                if not isinstance(exhibit, Progress):
                    found[problem] = exhibit
        return found

    def spend(self, problem: str, seconds: float) -> None:
        """Adds time to today's."""
        with self._lock:
            self._db.execute(
                "insert into activity values (?, ?, ?) on conflict do update set seconds = seconds + excluded.seconds",
                [datetime.date.today().isoformat(), problem, seconds],
            )

    def seconds(self) -> dict[str, float]:
        """Returns the time spent, in seconds, by problem."""
        with self._lock:
            return dict(self._db.execute("select problem, sum(seconds) from activity group by problem").fetchall())
