"""A review: a passed problem written again, in a file of its own, against the clock."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog, predictions
from grader.course.log import CORE, WHOLE, Entry, Progress
from grader.course.workspace import Standing, Workspace
from grader.practice import schedule, short_form
from grader.practice.schedule import AGAIN, RATINGS, Memory, Review
from grader.practice.short_form import Frame
from grader.problem import Problem

FOLDER = "reviews"


@dataclass
class Clock:
    """Counts the seconds while it runs."""

    counted: float = 0.0
    _since: float | None = None

    @property
    def runs(self) -> bool:
        return self._since is not None

    @property
    def seconds(self) -> float:
        return self.counted + (monotonic() - self._since if self._since is not None else 0.0)

    def start(self) -> None:
        if self._since is None:
            self._since = monotonic()

    def pause(self) -> None:
        self.counted, self._since = self.seconds, None


@dataclass
class UnderWay:
    """A review that has not ended, as the log records it.

    Attributes:
        id: The id of its first entry in the log.
        problem: The problem's name.
        form: What is reviewed: the core or the whole problem.
        frame: The name of the frame of a core.
        seconds: The time on the clock.
        gradings: The number of gradings with more than the stub.
        hints: The number of hints seen.
        mistakes: The misconceptions that were named.
        progress: The progress within the review.
    """

    id: str
    problem: str
    form: str
    frame: str = ""
    seconds: float = 0.0
    gradings: int = 0
    hints: int = 0
    mistakes: tuple[str, ...] = ()
    progress: Progress = field(default_factory=Progress)

    def add(self, entry: Entry) -> None:
        self.seconds = max(self.seconds, entry.number("seconds"))
        self.hints = max(self.hints, entry.number("hints"))
        if entry.text("verdict"):
            self.gradings += entry.text("verdict") != "NOT ATTEMPTED"
            graded = Entry(entry.id, entry.at, "graded", entry.problem, entry.facts)
            self.progress = self.progress.after(graded)
            self.mistakes = self.progress.mistakes


def under_way(entries: list[Entry]) -> dict[str, UnderWay]:
    """Returns the reviews that have not ended, by the name of the problem."""
    found: dict[str, UnderWay] = {}
    for entry in entries:
        if entry.kind == "reviewing" and not entry.text("review"):
            form, frame = entry.text("form") or WHOLE, entry.text("frame")
            found[entry.problem] = UnderWay(entry.id, entry.problem, form, frame)
        elif entry.kind == "reviewing" and entry.problem in found and found[entry.problem].id == entry.text("review"):
            found[entry.problem].add(entry)
        elif entry.kind == "reviewed" and entry.problem in found and found[entry.problem].id == entry.text("review"):
            del found[entry.problem]
    return found


@dataclass(frozen=True)
class ReviewSpace(Workspace):
    """The folder of a learner's reviews, beside the passed files, which it reads but never writes.

    It can stand wherever a workspace can: its record belongs to the review that is under way. `form` is the form of the
    review to begin, or empty for the form that the memory needs.
    """

    home: Workspace = field(kw_only=True)
    form: str = field(default="", kw_only=True)
    clocks: dict[str, Clock] = field(default_factory=dict, kw_only=True)
    changed: Callable[[], None] = field(default=lambda: None, kw_only=True)

    @classmethod
    def of(cls, home: Workspace, form: str = "") -> "ReviewSpace":
        return cls(home.folder / FOLDER, home=home, form=form)

    @property
    def modules(self) -> Path:
        return self.home.folder

    def entries(self) -> list[Entry]:
        return self.home.entries()

    def memory(self, problem: Problem) -> Memory:
        """Returns the learner's memory of a problem. Raises UsageError if it was never passed."""
        found = schedule.memories(self.entries()).get(problem.name)
        if found is None:
            raise UsageError(
                f"You have not passed problem {problem.label} yet, so there is nothing to review. Solve it first: "
                f"`grade problem {problem.label}`."
            )
        return found

    def add(self, problem: Problem) -> Path | None:
        """Begins a review, or continues the one that is under way. Returns the path of a new file. Raises
        UsageError."""
        memory, current = self.memory(problem), self.under_way(problem)
        if current is None:
            form = self.form or (memory.form if short_form.is_offered(problem) else WHOLE)
            frame = short_form.after(problem, memory.frame) if form == CORE else None
            self.put(problem, frame.stub if frame else catalog.stub_text(problem))
            self.home.record("reviewing", problem.name, form=form, frame=frame.name if frame else "")
        elif self.form and self.form != current.form:
            raise UsageError(
                f"A review of problem {problem.label} is under way: the {current.form}. Finish it with `grade review "
                f"{problem.label}`, or end it with `grade review {problem.label} --end`."
            )
        elif not self.file(problem).is_file():
            self.put(problem, frame.stub if (frame := self.frame(problem)) else catalog.stub_text(problem))
        self.clock(problem).start()
        return self.file(problem) if current is None else None

    def under_way(self, problem: Problem) -> UnderWay | None:
        return under_way(self.entries()).get(problem.name)

    def frame(self, problem: Problem) -> Frame | None:
        """Returns the frame of the review that is under way, or of the last one; None if it asks for the whole. Raises
        UsageError if learners get no core of the problem."""
        review = self.under_way(problem) or self.memory(problem).reviews[-1]
        return short_form.named(problem, review.frame) if review.form == CORE else None

    def clock(self, problem: Problem) -> Clock:
        """Returns the clock of the review that is under way."""
        if problem.name not in self.clocks:
            current = self.under_way(problem)
            self.clocks[problem.name] = Clock(current.seconds if current else 0.0)
        return self.clocks[problem.name]

    def progress(self) -> dict[str, Progress]:
        """Returns the hints seen and the verdicts in the reviews that are under way."""
        return {
            name: Progress(**{**vars(each.progress), "hints": each.hints})
            for name, each in under_way(self.entries()).items()
        }

    def standing(self, problem: Problem) -> Standing:
        """Returns the standing in the review of a problem: all points once the review has ended, else none."""
        ended = self.under_way(problem) is None
        return Standing("reviewed" if ended else "", problem.points if ended else 0, ended)

    def next_problem(self, after: Problem | None = None) -> Problem | None:
        """Returns the problem that is longest overdue, other than `after`; None if no other is due."""
        names = {name for name in catalog.names() if after is None or name != after.name}
        waiting = schedule.due(each for each in schedule.memories(self.entries()).values() if each.problem in names)
        return catalog.load(waiting[0].problem) if waiting else None

    def remember(
        self,
        problem: Problem,
        *,
        verdict: str = "",
        score: int = 0,
        digest: str = "",
        mistake: str = "",
        hints: int = 0,
        stages: int = 0,  # a review is passed as a whole
        fix: str = "",  # the mistake itself is counted
        given_up: bool = False,
    ) -> None:
        """Notes a verdict, hints, or that the learner gave up. A pass and giving up end the review."""
        if (current := self.under_way(problem)) is None:
            return
        seconds = round(self.clock(problem).seconds)
        self.home.record(
            "reviewing", problem.name, review=current.id, seconds=seconds, verdict=verdict, score=score,
            mistake=mistake, hints=hints or None,
        )  # fmt: skip
        if verdict == "PASS" or given_up:
            self.end(problem, given_up=given_up)

    def pause(self, problem: Problem) -> None:
        """Stops the clock, and notes the time."""
        self.clock(problem).pause()
        self.remember(problem)

    def end(self, problem: Problem, *, given_up: bool = False) -> None:
        """Ends the review, with the rating that follows from it."""
        current = self.under_way(problem)
        if current is None:
            raise UsageError(f"No review of problem {problem.label} is under way. `grade review` begins one.")
        self.clock(problem).pause()
        rating = schedule.rating(
            passed=current.progress.verdict == "PASS", given_up=given_up, gradings=current.gradings,
            slips=current.hints + len(current.mistakes),
        )  # fmt: skip
        facts: dict[str, Any] = {
            "rating": rating, "review_duration": round(self.clock(problem).seconds * 1000), "form": current.form,
            "frame": current.frame, "gradings": current.gradings, "hints": current.hints,
            "mistakes": list(current.mistakes),
        }  # fmt: skip
        self.home.record("reviewed", problem.name, review=current.id, **facts)
        self.clocks.pop(problem.name, None)

    def correct(self, problem: Problem, rating: int) -> None:
        """Replaces the rating of the last review, or of the first pass. Raises UsageError."""
        last = self.memory(problem).reviews[-1]
        self.home.record("rated", problem.name, review=last.id, rating=rating)


def summary(memory: Memory, space: ReviewSpace, problem: Problem, *, commands: bool = True) -> list[str]:
    """Returns the lines to show at the end of a review: the times, the differences from the first pass, and the next
    date.

    Without `commands`, no command to type is among them.
    """
    last, earlier = memory.reviews[-1], memory.reviews[:-1]
    lines = [f"Review {'given up' if last.rating == AGAIN else 'done'} in {clock_text(last.seconds)}."]
    timed = [each for each in earlier if not each.first and each.form == last.form]
    if timed:
        times = ", ".join(f"{clock_text(each.seconds)} on {day_text(each)}" for each in timed[-3:])
        lines.append(f"Before: {times}.")
    if first := next((each for each in earlier if each.first), None):
        lines.append(f"At the first pass: {_how(first)}. Now: {_how(last)}.")
        lines += [f"Compare: `{_diff(space, problem)}`."] if commands else []
    known = space.home.predicted(problem)
    wrong = [each for each in predictions.of(problem) if known.get(each.id) is False]
    if wrong:
        asked = " ".join(wrong[0].question.split())
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        lines.append(f"Your prediction was wrong when you first read: “{asked}”{more}")
        lines += [f"Answer it again: `grade predict {problem.label}`."] if commands else []
    lines.append(f"Rated {RATINGS[last.rating]}. Next review: {memory.due:%A, %B} {memory.due.day}.")
    return lines


def _how(review: Review) -> str:
    gradings = counted(review.gradings, "grading") if review.gradings else "passed"
    mistakes = "".join(f", “{mistake}”" for mistake in review.mistakes)
    hints = f", {counted(review.hints, 'hint')}" if review.hints else ""
    return f"{gradings}{hints}{mistakes}"


def _diff(space: ReviewSpace, problem: Problem) -> str:
    paths = [os.path.relpath(path) for path in (space.home.file(problem), space.file(problem))]
    return f"git diff --no-index {' '.join(paths)}"


def clock_text(seconds: float) -> str:
    """Formats seconds as `3:07`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def day_text(review: Review) -> str:
    local = review.at.astimezone()
    return f"{local:%B} {local.day}"
