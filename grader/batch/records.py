"""The records of a batch: the result of each learner and problem."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from grader.judge import cache
from grader.report.json_report import PublicReport
from grader.report.redacted import Reveal, redacted, told

COLUMNS = (
    "learner",
    "problem",
    "file",
    "verdict",
    "score",
    "adjusted",
    "points",
    "submitted",
    "late",
    "attempts",
    "misconception",
    "message",
    "notes",
    "decided",
    "excused",
)


@dataclass(frozen=True)
class Record:
    """One learner's result for one problem.

    Attributes:
        learner: The learner's name.
        problem: The problem's name.
        key: A hash of everything that decides the result.
        file: The name of the submitted file.
        verdict: The verdict, in words.
        score: The points before any penalty.
        points: The most points that the problem gives.
        misconception: The name of the misconception behind the failure, if one was found.
        message: Why the first check failed, or why nothing was graded.
        notes: Sentences on how the file was chosen and read.
        source: The submitted text.
        report: The public report; None if there is none.
        adjusted: The score after a penalty for lateness, or the mark that somebody decided; None if neither was stored.
        late: A sentence on the lateness; empty if it was on time.
        times: A sentence on when it was handed in and due.
        submitted: The time in ISO format; empty if it is not known.
        attempts: The number of submissions.
        attempt: Identifies the submission that counts among them.
        members: The names of the group that handed it in, if one did.
        decided: Why the mark differs from the result of grading, if somebody decided so.
        excused: Whether the learner is excused from the problem, so that the mark does not count.
    """

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
    adjusted: float | None = None
    late: str = ""
    times: str = ""
    submitted: str = ""
    attempts: int = 1
    attempt: str = ""
    members: str = ""
    decided: str = ""
    excused: bool = False

    @property
    def is_handed_in(self) -> bool:
        return self.attempts > 0

    @property
    def mark(self) -> float:
        """The score that goes into a gradebook: adjusted if there is a penalty, or a decision. A whole number is an
        int."""
        return whole(self.score if self.adjusted is None else self.adjusted)

    def redacted(self) -> "Record":
        """Returns the record as a table or a page may show it: the process of a submission that has run could have put
        numbers of secret cases into any text."""
        if self.report is None or not self.report.executed:
            return self
        report = redacted(self.report)
        return replace(self, report=report, message=report.summary())

    def told(self, reveal: Reveal) -> "Record":
        """Returns the record with the report as the learner may read it."""
        return replace(self, report=told(self.report, reveal)) if self.report else self

    def row(self) -> list[Any]:
        shown = {"adjusted": self.mark, "excused": "excused" if self.excused else ""}
        return [shown[name] if name in shown else getattr(self, name) for name in COLUMNS]


def total(records: Iterable[Record]) -> tuple[float, int]:
    """Returns the sum of the marks, and the most that it could be, without what the learners are excused from."""
    counting = [record for record in records if not record.excused]
    return whole(sum(record.mark for record in counting)), sum(record.points for record in counting)


def by_learner(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Returns the records of each learner, in order."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.learner, []).append(record)
    return grouped


@dataclass(frozen=True)
class StoredAttempt:
    """One submission of a learner for a problem, and its result.

    Attributes:
        learner: The learner's name.
        problem: The problem's name.
        attempt: Identifies it among the learner's submissions for the problem; empty where nothing was submitted.
        key: A hash of everything that decides the result; empty if there is no result that can be kept.
        file: The name of the submitted file.
        verdict: The verdict, in words.
        score: The points before any penalty.
        points: The most points that the problem gives.
        misconception: The name of the misconception behind the failure, if one was found.
        message: Why the first check failed, or why nothing was graded.
        notes: Sentences on how the file was chosen and read.
        sources: The texts by module.
        report: The public report; None if there is none.
        submitted: The time in ISO format; empty if it is not known.
        marked_late: The export's own mark.
        members: The names of the group that handed it in, if one did.
    """

    learner: str
    problem: str
    attempt: str
    key: str
    file: str
    verdict: str
    score: int
    points: int
    misconception: str = ""
    message: str = ""
    notes: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    report: PublicReport | None = None
    submitted: str = ""
    marked_late: bool = False
    members: str = ""

    def identified(self) -> "StoredAttempt":
        """Returns the attempt with its id, a digest of its text, its file and its time. Without a text, the message
        takes its place."""
        text = [part for pair in sorted(self.sources.items()) for part in pair] or [self.message]
        digest = cache.digest([self.problem, self.file, self.submitted, str(self.marked_late), *text])
        return replace(self, attempt=digest)


@dataclass(frozen=True)
class Person:
    """A learner as an export or a roster identifies them, first by the export's own id.

    `canvas` has the user id in Canvas, and `section` the part of the class, if these are known.
    """

    learner: str
    ids: tuple[str, ...] = ()
    canvas: tuple[str, ...] = ()
    section: str = ""

    @property
    def name(self) -> str:
        """The learner without the id behind the name."""
        return self.learner.removesuffix(f" ({self.ids[0]})") if self.ids else self.learner

    def knowing(self, other: "Person") -> "Person":
        """Returns the person, also with the ids of another one, who is the same."""
        ids, canvas = (
            tuple(dict.fromkeys([*own, *others]))
            for own, others in ((self.ids, other.ids), (self.canvas, other.canvas))
        )
        return replace(self, ids=ids, canvas=canvas, section=self.section or other.section)


def whole(mark: float) -> float:
    """Returns a mark as it is written: a whole number is an int."""
    return int(mark) if mark == int(mark) else mark


def collated(name: str) -> tuple[str, str]:
    """Sorts names as a reader looks for them: without regard to case and accents."""
    letters = unicodedata.normalize("NFKD", name).casefold()
    return "".join(letter for letter in letters if not unicodedata.combining(letter)), name


def folded(text: str) -> str:
    """Returns an id or a name as it is compared: macOS writes an umlaut as two characters, and people write names in
    capitals."""
    return unicodedata.normalize("NFC", text).strip().casefold()


def without_zeros(text: str) -> str:
    """Returns the same, without the leading zeros that a spreadsheet loses."""
    return folded(text).lstrip("0") or folded(text)


@dataclass(frozen=True)
class Regrade:
    """The effect of grading an attempt again, with all checks or with one.

    Attributes:
        at: The time of the request.
        learner: The learner's name.
        problem: The problem's name.
        because: The reason.
        verdict_before: The verdict before the regrade.
        score_before: The score before the regrade.
        verdict_after: The verdict after the regrade; None until it is done.
        score_after: The score after the regrade; None until it is done.
        check_name: The check that was graded again; empty for all checks.
    """

    at: str
    learner: str
    problem: str
    because: str
    verdict_before: str
    score_before: int
    verdict_after: str | None
    score_after: int | None
    check_name: str = ""


@dataclass(frozen=True)
class Join:
    """Two names of one learner.

    Attributes:
        at: The time of the join.
        learner: The name that was given up.
        ids: The ids of that name.
        joined: The name that stays.
        because: The reason.
    """

    at: str
    learner: str
    ids: tuple[str, ...]
    joined: str
    because: str


Sequences = frozenset[int]  # of the tokens of a file, as `grader.batch.similarity` reads them; a hash of each


@dataclass(frozen=True)
class Known:
    """A solution of a problem that learners can have found. `name` describes its origin."""

    problem: str
    name: str
    sequences: Sequences


@dataclass(frozen=True)
class Likeness:
    """A learner's file for a problem that is like the known solution of that name. `similarity` is between 0 and 1."""

    problem: str
    learner: str
    known: str
    similarity: float

    @property
    def is_word_for_word(self) -> bool:
        return self.similarity == 1


@dataclass(frozen=True)
class Mark:
    """The mark of a learner for a problem as a batch ended with it, and the attempt that it is for."""

    attempt: str
    mark: float
    verdict: str


@dataclass(frozen=True)
class Change:
    """A mark that changed, or would have, without a new submission.

    Attributes:
        at: The time of the change.
        learner: The learner's name.
        problem: The problem's name.
        verdict_before: The verdict before.
        mark_before: The mark before.
        verdict_after: The verdict after.
        mark_after: The mark after.
        because: The reason.
    """

    at: str
    learner: str
    problem: str
    verdict_before: str
    mark_before: float
    verdict_after: str
    mark_after: float
    because: str
