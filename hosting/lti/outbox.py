"""Marks on their way to the platforms: none is lost, and none is sent twice with another value.

A mark is stored with the time at which it was made before it is sent, and never changes. If the answer of the platform
is lost, or this process is killed, the very same score is sent again: a platform takes it for the one that it has
(Canvas), or refuses it because it has it (Moodle), which is then seen in the gradebook. A newer mark for the same
problem replaces one that has not arrived, and has a later time, so that a delayed request cannot undo it.
"""

import asyncio
import contextlib
import logging
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from grader.batch.gradebook import Assignment
from grader.course import catalog
from hosting.lti.database import Database
from hosting.lti.enrollments import Course, Enrollments
from hosting.lti.services import Score, ServiceError, Services

_LOG = logging.getLogger(__name__)

State = Literal["held", "waiting", "sent", "failed", "replaced"]
# Moodle compares whole seconds.
_APART = timedelta(seconds=1)
_SOONEST, _LATEST = 15.0, 3600.0  # seconds until the next try
_OLDER = (400, 409)  # how Canvas and Moodle refuse a score that is not newer than what they have
_NEAR = 0.005  # points: gradebooks show hundredths
_SLOT = "course = ? and learner = ? and problem = ?"
_OPEN = "state in ('held', 'waiting', 'failed')"


@dataclass(frozen=True)
class Mark:
    """A mark and its way.

    Attributes:
        id: The number of the mark.
        course: The number of the course.
        learner: The learner's name at the hub.
        problem: The problem's name.
        points: The points.
        maximum: The most points.
        received: When the submission was received; None if there was none.
        timestamp: When the mark was made.
        state: `held` until somebody sends the marks, `waiting` for the next try, `sent`, or `failed`.
        tries: The number of tries.
        due: The time of the next try, in seconds since 1970.
        reason: Why the last try failed.
    """

    id: int
    course: int
    learner: str
    problem: str
    points: float
    maximum: float
    received: datetime | None
    timestamp: datetime
    state: State
    tries: int
    due: float
    reason: str

    @classmethod
    def of(cls, row: sqlite3.Row) -> "Mark":
        times = {name: datetime.fromisoformat(row[name]) if row[name] else None for name in ("received", "timestamp")}
        return cls(**{**dict(row), **times})


# What a teacher does when the reason of a mark has these words.
_REMEDIES = (
    ("invalid_client", "The platform does not have the tool's key. Check the keyset URL, and that the key is on."),
    ("invalid_scope", "The developer key in Canvas lacks a scope. Let Canvas read canvas.json again."),
    ("no access to the gradebook", "Allow the tool to use the gradebook at the platform, then open a link once more."),
    ("does not let this tool create one", "Allow column management at the platform, or add the problem to the course."),
    ("has no column", "Add the problem to the course."),
    ("takes no earlier mark", "Somebody entered that mark later. Send marks to replace it by this one."),
    ("which is not one of", "Report this to the administrator of the platform."),
    ("no longer in platforms.toml", "Ask the administrator of this server to add the platform again."),
    (" 422 ", "The learner has left the course. Enroll them again, or do nothing."),
    (" 404 ", "The column was deleted. Send marks to create it again."),
)


def remedy(mark: Mark) -> str:
    """Returns what a teacher can do about a mark that has not arrived, as a sentence."""
    if mark.state == "held":
        return "Send marks when you want learners to see them."
    if mark.state == "waiting" and not mark.reason:
        return "Nothing to do. It is sent now."
    found = next((said for words, said in _REMEDIES if words in mark.reason), "")
    if mark.state == "waiting":
        return f"{found or 'Nothing to do.'} It is tried again."
    return found or "Remove the cause, then send marks."


class Outbox:
    """The marks of all courses. Any thread can add marks; one task sends them."""

    def __init__(self, database: Database, enrollments: Enrollments, services: Services) -> None:
        self._database, self._enrollments, self._services = database, enrollments, services
        self._sending = asyncio.Lock()
        self._new = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def put(self, learner: str, problem: str, points: float, received: datetime | None, *, hold: bool = False) -> int:
        """Stores a learner's mark for a problem, for each course from which the learner opened a link. Returns for how
        many courses it is new.

        With `hold`, it is sent when somebody calls `release`, or stores the same mark without it.
        """
        maximum = _assignment(problem).points
        added = 0
        for course in self._enrollments.courses_of(learner):
            with self._database.writing() as database:
                slot = (course, learner, problem)
                query = f"select * from marks where {_SLOT} order by id desc limit 1"  # noqa: S608  names of columns
                last = database.execute(query, slot).fetchone()
                content = (points, maximum, received.astimezone(UTC).isoformat() if received else "")
                if last and (last["points"], last["maximum"], last["received"]) == content:
                    if last["state"] == "held" and not hold:
                        database.execute("update marks set state = 'waiting' where id = ?", (last["id"],))
                    continue
                made = _after(last)
                database.execute(f"update marks set state = 'replaced' where {_SLOT} and {_OPEN}", slot)  # noqa: S608
                database.execute(
                    "insert into marks (course, learner, problem, points, maximum, received, timestamp, state) "
                    "values (?, ?, ?, ?, ?, ?, ?, ?)",
                    (*slot, *content, made, "held" if hold else "waiting"),
                )
            added += 1
        self._wake()
        return added

    def release(self, course: int | None = None, problem: str | None = None) -> int:
        """Sends now what is held, waits or failed, in one course or for one problem if they are given. Returns how many
        marks that are.

        A mark that failed gets a new time: a person has decided that it counts.
        """
        rows = self._database.rows(
            f"select * from marks where {_OPEN} and (? is null or course = ?) and (? is null or problem = ?)",  # noqa: S608
            course, course, problem, problem,
        )  # fmt: skip
        for row in rows:
            with self._database.writing() as database:
                made = _after(row) if row["state"] == "failed" else row["timestamp"]
                database.execute(
                    f"update marks set state = 'waiting', due = 0, timestamp = ? where id = ? and {_OPEN}",  # noqa: S608
                    (made, row["id"]),
                )
        self._wake()
        return len(rows)

    def marks(self, course: int | None = None) -> list[Mark]:
        """Returns the newest mark of each learner for each problem, with its state."""
        query = "select * from marks where state != 'replaced' and (? is null or course = ?) order by id"
        newest = {}
        for row in self._database.rows(query, course, course):
            newest[row["course"], row["learner"], row["problem"]] = Mark.of(row)
        return list(newest.values())

    async def send(self) -> None:
        """Sends each mark whose time has come, the oldest first."""
        async with self._sending:
            for mark in self._due():
                # Another mark may have failed for a reason that holds for all, or a newer one may have come.
                row = self._database.row("select * from marks where id = ?", mark.id)
                if row and row["state"] == "waiting" and row["due"] <= time.time():
                    await self._send(mark)

    async def run(self) -> None:
        """Sends each mark when its time has come, until the task is cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._new.clear()
            try:
                await self.send()
                wait = self._seconds_until_due()
            except Exception:  # whatever it is, such as a full disk, the marks are still stored
                _LOG.exception("Marks could not be sent.")
                wait = _SOONEST
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._new.wait(), wait)

    def _seconds_until_due(self) -> float:
        row = self._database.row("select min(due) as due from marks where state = 'waiting'")
        return _LATEST if row is None or row["due"] is None else min(max(row["due"] - time.time(), 0.01), _LATEST)

    def _wake(self) -> None:
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._new.set)

    def _due(self) -> list[Mark]:
        query = "select * from marks where state = 'waiting' and due <= ? order by id"
        return [Mark.of(row) for row in self._database.rows(query, time.time())]

    async def _send(self, mark: Mark) -> None:
        self._store(mark, "waiting", tries=mark.tries + 1)
        course = self._enrollments.course(mark.course)
        user = self._enrollments.user(mark.learner)
        score = Score(user, mark.points, mark.maximum, mark.received, mark.timestamp)
        try:
            line_item = await self._line_item(course, mark.problem)
            try:
                await self._services.send(course, line_item, score)
            except ServiceError as error:
                if error.status == 404:  # somebody deleted the column
                    self._forget_line_item(course, mark.problem)
                if error.status not in _OLDER:
                    raise
                await self._require_same(course, line_item, score, error)
        except ServiceError as error:
            self._put_off(mark, course, error)
        else:
            self._store(mark, "sent", tries=mark.tries + 1)

    async def _require_same(self, course: Course, line_item: str, score: Score, refusal: ServiceError) -> None:
        """Returns if the gradebook has this very mark, whose answer was lost. Raises ServiceError if it has another."""
        result = await self._services.result(course, line_item, score.user)
        if result is None:
            raise refusal
        mark, maximum = result
        if abs(mark * score.maximum - score.points * maximum) > _NEAR * maximum:
            raise ServiceError(f"the gradebook has {mark:g} of {maximum:g} and takes no earlier mark ({refusal})")

    async def _line_item(self, course: Course, problem: str) -> str:
        query = "select line_item from columns where course = ? and problem = ?"
        if row := self._database.row(query, course.id, problem):
            return str(row["line_item"])
        address = await self._services.line_item(course, _assignment(problem))
        with self._database.writing() as database:
            database.execute("insert or replace into columns values (?, ?, ?)", (course.id, problem, address))
        return address

    def _forget_line_item(self, course: Course, problem: str) -> None:
        with self._database.writing() as database:
            database.execute("delete from columns where course = ? and problem = ?", (course.id, problem))

    def _put_off(self, mark: Mark, course: Course, error: ServiceError) -> None:
        """Stores why a mark was not sent, and when it is tried again: later each time, or by a person."""
        wait = min(max(error.wait or 0.0, _SOONEST * 2.0 ** min(mark.tries, 8)), _LATEST)
        due = time.time() + wait
        self._store(mark, "waiting" if error.passes else "failed", tries=mark.tries + 1, due=due, reason=str(error))
        if error.everywhere:
            with self._database.writing() as database:
                database.execute(
                    "update marks set due = max(due, ?), reason = ? where state = 'waiting' and course in "
                    "(select id from courses where platform = ?)",
                    (due, str(error), course.platform),
                )

    def _store(self, mark: Mark, state: State, *, tries: int, due: float = 0.0, reason: str = "") -> None:
        """Stores the state of a mark, unless it was replaced while it was sent."""
        with self._database.writing() as database:
            database.execute(
                "update marks set state = ?, tries = ?, due = ?, reason = ? where id = ? and state = 'waiting'",
                (state, tries, due, reason, mark.id),
            )


def _assignment(problem: str) -> Assignment:
    return Assignment.of(catalog.load(problem))


def _after(last: sqlite3.Row | None) -> str:
    """Returns the time of a mark that is made now: later than that of the mark before it."""
    now = datetime.now(UTC)
    return (max(now, datetime.fromisoformat(last["timestamp"]) + _APART) if last else now).isoformat()
