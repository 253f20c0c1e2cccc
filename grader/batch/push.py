"""`grade push canvas`: sends marks by the REST API of Canvas.

It compares with the marks that Canvas has and sends only those that differ, so that the command can be repeated. It
remembers what it sent: any other mark in Canvas is somebody's decision, and stays. A comment is sent once.
https://developerdocs.instructure.com/services/canvas/resources/submissions ("Grade or comment on multiple
submissions").
"""

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from commandline.text import counted
from grader.batch import feedback
from grader.batch.gradebook import Assignment
from grader.batch.records import Person, Record
from grader.batch.results import Results
from grader.batch.similarity import digest
from grader.batch.store import Store
from grader.course import catalog
from grader.problem import Problem

TOKEN = "CANVAS_TOKEN"  # noqa: S105  the name of a variable
MOST_MARKS = 100  # in one request
MOST_COMMENTS = 20
_MOST_BYTES = 64 << 20  # of one answer
_SECONDS = 30.0  # for one answer
_PATIENCE = 300.0  # seconds for Canvas to carry out one request
_TRIES = 4
_OF_THE_MARKS = (400, 422)  # the answers to a request whose marks are not accepted
MOST_SHOWN = 20  # learners in a message
_NEXT = re.compile(r'<([^<>]+)>;\s*rel="next"')
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Target:
    """The course in Canvas that receives the marks: the server's address, the course's number, and assignments as
    `NN=ID`."""

    url: str
    course: str
    assignments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A mark to send. `before` is the one in Canvas; None if there is none."""

    learner: str
    user: str
    points: float
    before: float | None


@dataclass(frozen=True)
class Comment:
    """A comment to send on a learner's submission."""

    learner: str
    user: str
    text: str


def push(folder: Path, target: Target, *, send: bool, overwrite: bool = False, comments: bool = False) -> Iterator[str]:
    """Yields the differences from Canvas, and sends them if `send`; with `overwrite`, also where somebody entered
    another mark.

    With `comments`, also sends the comments on learners' files. Raises UsageError, at the end if Canvas refused
    something.
    """
    stored = Store.existing(folder) if send else Results(folder)
    try:
        yield from _push(stored, target, overwrite=overwrite, comments=comments)
    finally:
        stored.close()


@dataclass
class _Count:
    """The counts of a push, and the learners whom Canvas did not accept, with the name of the assignment."""

    marks: int = 0
    decided: int = 0  # marks that somebody has entered in Canvas
    comments: int = 0
    refused: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)


def _push(stored: Results, target: Target, *, overwrite: bool, comments: bool) -> Iterator[str]:
    records, people = stored.records(), stored.people()
    texts = feedback.comments(stored) if comments else {}
    canvas = Canvas(target.url, os.environ.get(TOKEN, ""), target.course)
    problems = [catalog.load(name) for name in sorted({record.problem for record in records})]
    if not problems:
        raise UsageError(f"{stored.folder} has no results yet.")
    assignments = _assignments(canvas, problems, target.assignments)
    yield from (f"Note: {person.learner!r} has no Canvas id and is left out; `grade batch --roster` finds it."
                for person in people.values() if not person.canvas)  # fmt: skip
    count = _Count()
    for problem in problems:
        row = assignments[problem.name]
        if row.get("points_possible") not in (None, problem.points):
            yield f"Note: {row['name']!r} has {row['points_possible']:g} points in Canvas and {problem.points} here."
        own = [record for record in records if record.problem == problem.name]
        current = canvas.marks(row["id"], comments=comments)
        yield from _push_marks(stored, canvas, row, own, people, current, overwrite=overwrite, count=count)
        yield from _push_comments(stored, canvas, row, own, people, current, texts, count)
    _require_all_taken(count)
    yield from _closing_lines(count, sends=isinstance(stored, Store), comments=comments)


def _push_marks(
    stored: Results,
    canvas: "Canvas",
    row: Mapping[str, Any],
    records: Sequence[Record],
    people: Mapping[str, Person],
    current: Mapping[str, "Current"],
    *,
    overwrite: bool,
    count: _Count,
) -> Iterator[str]:
    """Yields the marks of an assignment that differ from Canvas' `current` ones, and sends them if `stored` can be
    written."""
    sent = None if overwrite else stored.sent(canvas.name, str(row["id"]))
    marks, kept, notes = _differences(records, people, current, sent)
    yield from (f"Note: {note}." for note in notes)
    for mark in marks:
        yield f"{row['name']}, {mark.learner}: {_points(mark.before)} -> {mark.points:g}"
    for mark in kept:
        yield (
            f"{row['name']}, {mark.learner}: {_points(mark.before)} stays, because it was entered in Canvas; "
            f"it is {mark.points:g} here"
        )
    count.marks, count.decided = count.marks + len(marks), count.decided + len(kept)
    if isinstance(stored, Store):
        count.refused += [f"{mark.learner!r} ({row['name']})" for mark in _sent(stored, canvas, row["id"], marks)]
        same = {mark.user for mark in (*marks, *kept)}
        counting = [record for record in records if not record.excused]
        equal = {user: record.mark for record in counting for user in _users(people, record) if user not in same}
        stored.remember_sent(canvas.name, str(row["id"]), equal)


def _push_comments(
    stored: Results,
    canvas: "Canvas",
    row: Mapping[str, Any],
    records: Sequence[Record],
    people: Mapping[str, Person],
    current: Mapping[str, "Current"],
    texts: Mapping[tuple[str, str], str],
    count: _Count,
) -> Iterator[str]:
    """Yields the comments of an assignment that Canvas lacks, and sends them if `stored` can be written."""
    unsaid = _comments(records, people, texts, current, stored.comments(canvas.name, str(row["id"])))
    yield from (f"{row['name']}, {one.learner}: comment: {one.text.partition(chr(10))[0]}" for one in unsaid)
    count.comments += len(unsaid)
    if isinstance(stored, Store) and unsaid:
        lost = _said(stored, canvas, row["id"], unsaid, current)
        count.unheard += [f"{one.learner!r} ({row['name']})" for one in lost]


def _require_all_taken(count: _Count) -> None:
    """Raises UsageError if Canvas did not take something."""
    if left := [*count.refused, *count.unheard]:
        lost = {"mark": count.refused, "comment": count.unheard}
        what = " and ".join(counted(len(ones), noun) for noun, ones in lost.items() if ones)
        raise UsageError(
            f"Canvas did not take {what}: {', '.join(left[:MOST_SHOWN])}{', ...' * (len(left) > MOST_SHOWN)}. It has "
            "all others. Look at these students in Canvas, then repeat the command: it sends what is left."
        )


def _closing_lines(count: _Count, *, sends: bool, comments: bool) -> Iterator[str]:
    if count.decided:
        stay = f"stay{'s' * (count.decided == 1)}"
        yield f"{counted(count.decided, 'mark')} entered in Canvas {stay}; --overwrite replaces them."
    if not count.marks:
        yield "Canvas has all other marks." if count.decided else "Canvas has all marks."
    elif sends:
        yield f"Sent {counted(count.marks, 'mark')}."
    else:
        yield f"Nothing was sent. Add --send to send {counted(count.marks, 'mark')}."
    if comments:
        if not count.comments:
            yield "Canvas has all comments."
        elif sends:
            yield f"Sent {counted(count.comments, 'comment')}."
        else:
            yield f"No comment was sent. Add --send to send {counted(count.comments, 'comment')}."


def _sent(stored: Store, canvas: "Canvas", identity: object, marks: Sequence[Mark]) -> list[Mark]:
    """Sends marks, stores those that have arrived, and returns those that Canvas did not accept."""
    for start in range(0, len(marks), MOST_MARKS):
        some = marks[start : start + MOST_MARKS]
        _send(canvas, identity, some)
        stored.remember_sent(canvas.name, str(identity), {mark.user: mark.points for mark in some})
    now = canvas.marks(identity) if marks else {}
    left = [mark for mark in marks if mark.user in now and not _same(now[mark.user].points, mark.points)]
    stored.remember_sent(
        canvas.name, str(identity), {mark.user: mark.before for mark in left if mark.before is not None}
    )
    return left


def _comments(
    records: Sequence[Record],
    people: Mapping[str, Person],
    texts: Mapping[tuple[str, str], str],
    current: Mapping[str, "Current"],
    sent: Mapping[str, str],
) -> list[Comment]:
    """Returns the comments of an assignment that are neither in Canvas nor were sent before: one that was deleted there
    is not sent again."""
    found = list[Comment]()
    for record in records:
        text = texts.get((record.learner, record.problem), "")
        for user in _users(people, record) if text else ():
            there = current.get(user)
            if there and not there.excused and _words(text) not in there.comments and sent.get(user) != digest(text):
                found.append(Comment(record.learner, user, text))
    return found


def _said(
    stored: Store, canvas: "Canvas", identity: object, comments: Sequence[Comment], before: Mapping[str, "Current"]
) -> list[Comment]:
    """Sends comments, stores those that have arrived, and returns those that Canvas did not accept."""
    for start in range(0, len(comments), MOST_COMMENTS):
        _send_comments(canvas, identity, comments[start : start + MOST_COMMENTS])
    now = canvas.marks(identity, comments=True)
    arrived = [
        one for one in comments if one.user in now and len(now[one.user].comments) > len(before[one.user].comments)
    ]
    stored.remember_comments(canvas.name, str(identity), {one.user: digest(one.text) for one in arrived})
    return [one for one in comments if one not in arrived]


def _send_comments(canvas: "Canvas", identity: object, comments: Sequence[Comment]) -> None:
    """Sends comments together or, if Canvas refuses that, one by one."""
    try:
        canvas.update(identity, {(one.user, "text_comment"): one.text for one in comments})
    except RefusedMarksError:
        for one in comments if len(comments) > 1 else ():
            _send_comments(canvas, identity, [one])


def _points(mark: float | None) -> str:
    return "none" if mark is None else f"{mark:g}"


def _send(canvas: "Canvas", identity: object, marks: Sequence[Mark]) -> None:
    """Sends marks together or, if Canvas refuses that, one by one: an error with one learner must not affect the
    others."""
    try:
        canvas.send(identity, marks)
    except RefusedMarksError:
        for mark in marks if len(marks) > 1 else ():
            _send(canvas, identity, [mark])


def _assignments(canvas: "Canvas", problems: Sequence[Problem], words: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Returns the assignment of each problem: the one that the user names, or the one of the problem's name. Raises
    UsageError."""
    listed = canvas.assignments()
    chosen: dict[str, str] = {}
    for word in words:
        label, _, number = word.partition("=")
        if not number.strip().isdecimal():
            raise UsageError(f"--assignment {word} is not valid; write NN=ID, such as 07=4711.")
        chosen[catalog.find(label).name] = number.strip()
    found: dict[str, Mapping[str, Any]] = {}
    for problem in problems:
        name = Assignment.of(problem).title
        number = chosen.get(problem.name, "")
        fitting = [row for row in listed if (str(row["id"]) == number if number else row["name"] == name)]
        if len(fitting) != 1:
            what = f"with the number {number}" if number else f"named {name!r}"
            count = "two assignments" if fitting else "no assignment"
            raise UsageError(
                f"Course {canvas.course} has {count} {what}; create it, or name one with --assignment "
                f"{problem.label}=ID."
            )
        found[problem.name] = fitting[0]
    return found


def _differences(
    records: Sequence[Record],
    people: Mapping[str, Person],
    current: Mapping[str, "Current"],
    sent: Mapping[str, float] | None,
) -> tuple[list[Mark], list[Mark], list[str]]:
    """Returns the marks to send, the different marks that somebody entered in Canvas, and notes on those that cannot be
    sent.

    `sent` are the marks that were sent from here, if that is known. Any other mark in Canvas was entered there.
    """
    marks, kept, notes = list[Mark](), list[Mark](), list[str]()
    for record in records:
        for user in _users(people, record):
            there = current.get(user)
            if record.excused:
                notes.append(f"{record.learner!r} is excused and is left out; set that in Canvas, too")
            elif there is None:
                notes.append(f"{record.learner!r} is not in the course and is left out")
            elif there.excused:
                notes.append(f"{record.learner!r} is excused in Canvas and is left out")
            elif not _same(there.points, record.mark):
                entered = sent is not None and there.points is not None and not _same(there.points, sent.get(user))
                (kept if entered else marks).append(Mark(record.learner, user, record.mark, there.points))
    return marks, kept, notes


def _users(people: Mapping[str, Person], record: Record) -> tuple[str, ...]:
    return people[record.learner].canvas if record.learner in people else ()


def _same(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) < 0.005  # Canvas shows hundredths


@dataclass(frozen=True)
class Current:
    """A mark in Canvas, before Canvas' own penalty for lateness, and the comments beside it, if they were asked for."""

    points: float | None
    excused: bool
    comments: tuple[str, ...] = ()


class RefusedMarksError(Exception):
    """Canvas did not store the marks of a request."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would carry the token to another address."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Canvas:
    """The API of a Canvas for one course. All errors become UsageError; none shows the token."""

    def __init__(self, url: str, token: str, course: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url} is not the address of a Canvas; write, for example, https://canvas.example.edu.")
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise UsageError(f"{url} would show your token to the network; use https.")
        if not course.isdecimal():
            raise UsageError(f"--course {course} is not the number of a course, such as 4711 in /courses/4711.")
        if not token.strip() or not token.strip().isprintable() or not token.strip().isascii():
            raise UsageError(f"Set {TOKEN} to an access token of Canvas (Account, Settings, New Access Token).")
        self.course = course
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._api = f"{self._origin}{parts.path.rstrip('/')}/api/v1"
        self.name = f"{self._api}/courses/{course}"
        self._token = token.strip()
        self._opener = urllib.request.build_opener(_NoRedirect)

    def assignments(self) -> list[Mapping[str, Any]]:
        """Returns the assignments of the course."""
        return self._list(f"{self._api}/courses/{self.course}/assignments?per_page=100")

    def marks(self, identity: object, *, comments: bool = False) -> dict[str, Current]:
        """Returns the marks of an assignment, by user id; with `comments`, also these."""
        more = "&include[]=submission_comments" if comments else ""
        rows = self._list(f"{self._assignment(identity)}/submissions?per_page=100{more}")
        return {str(row["user_id"]): Current(_entered(row), bool(row.get("excused")), _written(row)) for row in rows}

    def send(self, identity: object, marks: Sequence[Mark]) -> None:
        """Sends marks of an assignment. Raises what `update` does."""
        self.update(identity, {(mark.user, "posted_grade"): f"{mark.points:g}" for mark in marks})

    def update(self, identity: object, values: Mapping[tuple[str, str], str]) -> None:
        """Sends values by user and field, and waits until Canvas has stored them. Raises RefusedMarksError if it does
        not."""
        form = {f"grade_data[{user}][{field}]": value for (user, field), value in values.items()}
        job = self._request(f"{self._assignment(identity)}/submissions/update_grades", form)[0]
        deadline = time.monotonic() + _PATIENCE
        while (state := job.get("workflow_state")) != "completed":
            if state == "failed":
                raise RefusedMarksError
            if time.monotonic() > deadline:
                raise UsageError("Canvas is still storing the marks; repeat the command later: it sends what is left.")
            time.sleep(0.2 if state == "running" else 0.5)
            job = self._request(f"{self._api}/progress/{int(job['id'])}")[0]

    def _assignment(self, identity: object) -> str:
        return f"{self._api}/courses/{self.course}/assignments/{identity}"

    def _list(self, url: str) -> list[Mapping[str, Any]]:
        rows: list[Mapping[str, Any]] = []
        while url:
            page, links = self._request(url)
            if not isinstance(page, list):
                raise self._unexpected()
            rows += page
            match = _NEXT.search(links)
            url = match[1] if match else ""
            if url and not url.startswith(f"{self._origin}/"):
                raise self._unexpected()
        return rows

    def _request(self, url: str, form: Mapping[str, str] | None = None) -> tuple[Any, str]:
        """Returns the decoded answer, and its links. Repeats a request that Canvas puts off. Raises UsageError."""
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        for attempt in range(_TRIES):
            headers = {"Authorization": f"Bearer {self._token}"}
            request = urllib.request.Request(url, data, headers)  # noqa: S310  checked
            try:
                with self._opener.open(request, timeout=_SECONDS) as answer:
                    return json.loads(answer.read(_MOST_BYTES)), answer.headers.get("Link", "")
            except urllib.error.HTTPError as error:
                with error:
                    limited = error.code == 403 and b"Rate Limit" in error.read(1000)
                put_off = limited or error.code in (429, 502, 503, 504)
                if form is not None and error.code in _OF_THE_MARKS:
                    raise RefusedMarksError from None
                if not put_off or attempt == _TRIES - 1:
                    raise self._refused(error.code) from None
                time.sleep(2**attempt)
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or error
                raise UsageError(
                    f"Canvas does not answer at {self._origin}: {reason}. Repeat the command later."
                ) from None
            except ValueError:
                raise self._unexpected() from None
        raise AssertionError("the last attempt returns or raises")

    def _refused(self, code: int) -> UsageError:
        reasons = {
            401: f"does not accept the token in {TOKEN}; create a new one",
            403: "does not allow you to do that; the token must be a teacher's",
            404: f"has no course {self.course}, or the token may not see it",
        }
        return UsageError(
            f"Canvas {reasons.get(code, f'refused the request (HTTP {code}); repeat the command later')}."
        )

    def _unexpected(self) -> UsageError:
        return UsageError(f"{self._origin} does not answer like a Canvas; check --url.")


def _written(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_words(str(one.get("comment", ""))) for one in row.get("submission_comments") or ())


def _words(text: str) -> str:
    """Returns a comment as it is compared: Canvas may break its lines otherwise."""
    return " ".join(text.split())


def _entered(row: Mapping[str, Any]) -> float | None:
    points = row.get("entered_score", row.get("score"))
    return None if points is None else float(points)
