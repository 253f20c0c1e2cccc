"""What must outlive the service: who is whom, the courses and their columns, marks on their way, and used nonces."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError

_VERSION = 1
# A mark never changes but for its state: a score that arrived and whose answer was lost is sent again as it was.
_TABLES = """
begin;
create table nonces (nonce text primary key, until real not null);
create table learners (
  learner text primary key, platform text not null, user text not null, unique (platform, user)
);
create table courses (
  id integer primary key, platform text not null, course text not null, title text not null,
  line_items text not null, memberships text not null, scopes text not null, unique (platform, course)
);
create table enrollments (learner text not null, course integer not null, primary key (learner, course));
create table columns (
  course integer not null, problem text not null, line_item text not null, primary key (course, problem)
);
create table marks (
  id integer primary key, course integer not null, learner text not null, problem text not null,
  points real not null, maximum real not null, received text not null, timestamp text not null,
  state text not null, tries integer not null default 0, due real not null default 0, reason text not null default ''
);
create index marks_of_slot on marks (course, learner, problem);
create index marks_by_state on marks (state, due);
pragma user_version = 1;
commit;
"""


class Database:
    """A SQLite file that only its owner may read. Only one process at a time can open it; its threads share it.

    Raises UsageError if it cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        with contextlib.ExitStack() as undo:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._unlock = _locked(path)
                undo.callback(self._unlock)
                path.touch(0o600)
                self._connection = sqlite3.connect(path, check_same_thread=False)
                undo.callback(self._connection.close)
                self._connection.row_factory = sqlite3.Row
                self._connection.execute("pragma synchronous = full")  # what was promised survives a power cut
                self._connection.execute("pragma secure_delete = on")  # what is forgotten is not in free pages either
                (version,) = self._connection.execute("pragma user_version").fetchone()
                if version == 0:
                    self._connection.executescript(_TABLES)
                elif version != _VERSION:
                    raise UsageError(f"{path} was written by another version of the course; use that version.")
            except OSError as error:
                raise UsageError(f"{path} cannot be used: {error.strerror}.") from None
            except sqlite3.Error as error:
                raise UsageError(f"{path} cannot be used: {error}.") from None
            undo.pop_all()

    def close(self) -> None:
        """Closes the file, which another process may then open."""
        with self._lock:
            self._connection.close()
        self._unlock()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yields the connection for changes that are stored together, or not at all if an error is raised."""
        with self._lock, self._connection:
            yield self._connection

    def use_once(self, nonce: str, seconds: float) -> bool:
        """Stores a nonce for some seconds. Returns whether it is new."""
        with self.writing() as connection:
            connection.execute("delete from nonces where until < ?", (time.time(),))
            inserted = connection.execute(
                "insert or ignore into nonces values (?, ?)", (nonce, time.time() + seconds)
            )  # fmt: skip
            return inserted.rowcount == 1

    def rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        """Returns the rows of a query."""
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, *values: Any) -> sqlite3.Row | None:
        """Returns the first row of a query; None if it has none."""
        return next(iter(self.rows(query, *values)), None)


def _locked(path: Path) -> Callable[[], None]:
    unlock = files.lock(path.with_name(f"{path.name}.lock"), 0o600)
    if unlock is None:
        raise UsageError(f"{path} is used by another process; stop it first.")
    return unlock
