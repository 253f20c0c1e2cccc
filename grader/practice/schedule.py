"""The dates of reviews: each problem's reviews, derived from the log, and the dates that FSRS gives them.

FSRS is a model of memory (Ye, Su and Cao 2022, doi:10.1145/3534678.3539081), here the package `fsrs` with its own
parameters. Only functions that need a date import it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING

from grader.course.log import CORE, WHOLE, Entry, Progress, now

if TYPE_CHECKING:
    from fsrs import Card, Scheduler

RATINGS = {1: "again", 2: "hard", 3: "good", 4: "easy"}  # as FSRS numbers them
AGAIN, HARD, GOOD, EASY = RATINGS
MANY_SLIPS = 3  # named mistakes and hints, from which on a pass was hard
YOUNG = 7.0  # days: the stability of a memory below which the core of a problem is reviewed, not the whole


@dataclass(frozen=True)
class Review:
    """One time that a problem was solved or given up: the first pass, or a review of it.

    Attributes:
        id: The id of its entry in the log.
        problem: The problem's name.
        at: When it ended.
        rating: The rating for FSRS.
        first: Whether it was the first pass.
        form: What was written: the core or the whole problem.
        frame: The name of the frame of a core, as the log has it; empty for the reference.
        seconds: The time on the clock; a first pass has none.
        gradings: The number of gradings.
        hints: The number of hints seen.
        mistakes: The misconceptions that were named.
    """

    id: str
    problem: str
    at: datetime
    rating: int
    first: bool = False
    form: str = WHOLE
    frame: str = ""
    seconds: int = 0
    gradings: int = 0
    hints: int = 0
    mistakes: tuple[str, ...] = ()

    @property
    def slips(self) -> int:
        return self.hints + len(self.mistakes)


@dataclass(frozen=True)
class Memory:
    """A problem that was passed: its reviews in order, and the day on which it is due."""

    problem: str
    reviews: Sequence[Review]
    due: date
    stability: float

    @property
    def form(self) -> str:
        """The form of the next review: the core while the memory is young, else the whole problem."""
        return CORE if self.stability < YOUNG else WHOLE

    @property
    def frame(self) -> str | None:
        """The name of the frame of the last core that was written; None before the first."""
        return next((each.frame for each in reversed(self.reviews) if each.form == CORE), None)


def rating(*, passed: bool, given_up: bool, gradings: int, slips: int) -> int:
    """Returns the rating that follows from how a problem was solved."""
    if given_up or not passed:
        return AGAIN
    if slips >= MANY_SLIPS:
        return HARD
    return EASY if gradings <= 1 and not slips else GOOD


def reviews(entries: Iterable[Entry]) -> dict[str, list[Review]]:
    """Returns the reviews of each passed problem in order of time, by its name. Corrections of ratings are applied."""
    before: dict[str, _Before] = {}
    found: dict[str, list[Review]] = {}
    corrected: dict[str, int] = {}
    for entry in entries:
        if entry.kind == "rated" and entry.number("rating") in RATINGS:
            corrected[entry.text("review")] = entry.number("rating")
        if not entry.problem:
            continue
        if entry.kind == "reviewed" and entry.number("rating") in RATINGS:
            found.setdefault(entry.problem, []).append(_reviewed(entry))
            continue
        progress = before.setdefault(entry.problem, _Before())
        if not progress.passed:
            progress.add(entry)
            if progress.passed:
                found.setdefault(entry.problem, []).append(progress.review(entry))
    return {
        name: [replace(each, rating=corrected.get(each.id, each.rating)) for each in rows]
        for name, rows in found.items()
    }


@dataclass
class _Before:
    """The entries about a problem up to its first pass, summed up."""

    progress: Progress = field(default_factory=Progress)
    gradings: int = 0

    @property
    def passed(self) -> bool:
        return self.progress.verdict == "PASS"

    def add(self, entry: Entry) -> None:
        self.progress = self.progress.after(entry)
        self.gradings += entry.kind == "graded" and entry.text("verdict") != "NOT ATTEMPTED"

    def review(self, entry: Entry) -> Review:
        progress = self.progress
        gradings = self.gradings if entry.kind == "graded" else 2  # an old file does not tell
        slips = progress.help + len(progress.mistakes)
        rated = rating(passed=True, given_up=progress.given_up, gradings=gradings, slips=slips)
        return Review(
            entry.id, entry.problem, entry.time, rated, first=True, form=progress.form, gradings=self.gradings,
            hints=progress.help, mistakes=progress.mistakes,
        )  # fmt: skip


def _reviewed(entry: Entry) -> Review:
    return Review(
        entry.id, entry.problem, entry.time, entry.number("rating"), form=entry.text("form") or WHOLE,
        frame=entry.text("frame"), seconds=entry.number("review_duration") // 1000,
        gradings=entry.number("gradings"), hints=entry.number("hints"), mistakes=entry.names("mistakes"),
    )  # fmt: skip


def memories(entries: Iterable[Entry]) -> dict[str, Memory]:
    """Returns the memory of each passed problem, by its name."""
    found = {}
    for name, rows in reviews(entries).items():
        card = card_of(rows)
        found[name] = Memory(name, rows, card.due.astimezone().date(), card.stability or 0.0)
    return found


def due(found: Iterable[Memory], day: date | None = None) -> list[Memory]:
    """Returns the memories that are due on a day, today unless given, the longest overdue first."""
    day = day or now().date()
    return sorted((each for each in found if each.due <= day), key=lambda each: each.due)


def card_of(rows: Sequence[Review]) -> "Card":
    """Returns the FSRS card of a problem after these reviews."""
    from fsrs import Card, Rating, ReviewLog

    card = Card(card_id=1)
    logs = [ReviewLog(1, Rating(row.rating), row.at.astimezone(UTC), row.seconds * 1000 or None) for row in rows]
    return scheduler().reschedule_card(card, logs)


@cache
def scheduler() -> "Scheduler":
    """Returns FSRS with its default parameters, in whole days. Its dates have no random part, because they are derived
    again and again."""
    from fsrs import Scheduler

    return Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
