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

    `key` is the hash of everything that decides it; `source` is the submitted text. `adjusted` is the score after a
    penalty for lateness, `late` a sentence on the lateness, `times` one on when it was handed in and due, `submitted`
    the time in ISO format, and `attempts` the number of submissions, of which `attempt` identifies the one that counts.
    `members` names the group that handed it in, if one did. `decided` says why the mark is not what grading gives. The
    mark does not count if the learner is `excused`.
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
        """The record as a table or a page may show it: the process of a submission that has run could have put numbers
        of secret cases into any text."""
        if self.report is None or not self.report.executed:
            return self
        report = redacted(self.report)
        return replace(self, report=report, message=report.summary())

    def told(self, reveal: Reveal) -> "Record":
        """The record with the report as the learner may read it."""
        return replace(self, report=told(self.report, reveal)) if self.report else self

    def row(self) -> list[Any]:
        shown = {"adjusted": self.mark, "excused": "excused" if self.excused else ""}
        return [shown[name] if name in shown else getattr(self, name) for name in COLUMNS]


def total(records: Iterable[Record]) -> tuple[float, int]:
    """The sum of the marks, and the most that it could be, without what the learners are excused from."""
    counting = [record for record in records if not record.excused]
    return whole(sum(record.mark for record in counting)), sum(record.points for record in counting)


def by_learner(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each learner, in order."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.learner, []).append(record)
    return grouped


@dataclass(frozen=True)
class StoredAttempt:
    """One submission of a learner for a problem, and its result.

    `attempt` identifies it among the learner's submissions for the problem; it is empty where nothing was submitted.
    `key` is empty if it has no result that can be kept. `sources` are the texts by module.
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
        """The attempt with what it is known by: its text, its file and its time. Without a text, the message says
        why."""
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
        """The person, also with the ids of another one, who is the same."""
        ids, canvas = (
            tuple(dict.fromkeys([*own, *others]))
            for own, others in ((self.ids, other.ids), (self.canvas, other.canvas))
        )
        return replace(self, ids=ids, canvas=canvas, section=self.section or other.section)


def whole(mark: float) -> float:
    """A mark as it is written: a whole number is an int."""
    return int(mark) if mark == int(mark) else mark


def collated(name: str) -> tuple[str, str]:
    """Sorts names as a reader looks for them: without regard to case and accents."""
    letters = unicodedata.normalize("NFKD", name).casefold()
    return "".join(letter for letter in letters if not unicodedata.combining(letter)), name


def folded(text: str) -> str:
    """An id or a name as it is compared: macOS writes an umlaut as two characters, and people write names in
    capitals."""
    return unicodedata.normalize("NFC", text).strip().casefold()


def without_zeros(text: str) -> str:
    """The same, without the leading zeros that a spreadsheet loses."""
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
    """Two names of one learner: `learner`, known by `ids`, is `joined`."""

    at: str
    learner: str
    ids: tuple[str, ...]
    joined: str
    because: str


Sequences = frozenset[int]  # of the tokens of a file, as `grader.batch.similarity` reads them; a hash of each


@dataclass(frozen=True)
class Known:
    """A solution of a problem that learners can have found. `name` says where it is from."""

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
    """A mark that changed, or would have, without a new submission."""

    at: str
    learner: str
    problem: str
    verdict_before: str
    mark_before: float
    verdict_after: str
    mark_after: float
    because: str
