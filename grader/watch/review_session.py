"""A review on the screen of watch mode: a problem written again, with a clock."""

from collections.abc import Callable, Mapping

from commandline.errors import UsageError
from commandline.text import counted
from grader.course import catalog, page
from grader.judge.verdict import Verdict
from grader.practice.review import ReviewSpace, clock_text, summary
from grader.practice.schedule import RATINGS
from grader.problem import Problem
from grader.resident.grade_queue import Judge
from grader.watch.watch_session import WatchSession


class ReviewSession(WatchSession):
    """Grades the file of a review at every save. A pass ends the review."""

    keys: Mapping[str, str] = {
        "n": "next due", "h": "hint", "p": "page", "c": "pause", "e": "edit", "r": "run", "s": "solution", "q": "quit",
    }  # fmt: skip
    refresh = 1.0
    follows = False

    def __init__(
        self,
        space: ReviewSpace,
        problem: Problem,
        judge: Judge,
        changed: Callable[[], None],
        *,
        poll: bool = False,
    ) -> None:
        super().__init__(space, problem, judge, changed, poll=poll)
        self.reviews = space

    def open(self, problem: Problem, *, followed: str = "") -> None:
        if problem is not self.state.problem:
            self.reviews.pause(self.state.problem)
        super().open(problem, followed=followed)

    def close(self) -> None:
        super().close()
        self.reviews.pause(self.state.problem)

    def banner(self) -> str:
        problem = self.state.problem
        current, clock = self.reviews.under_way(problem), self.reviews.clock(problem)
        if current is None:
            return "The review has ended."
        frame = self.reviews.frame(problem)
        what = f"the core, {counted(frame.count, 'line')}" if frame else "the whole"
        paused = "" if clock.runs else ", paused (c continues)"
        return f"Review of {what}. {clock_text(clock.seconds)}{paused}"

    def opening(self) -> str:
        """Returns the task and the file to fill in, as long as nothing was written: the rest of the page is one key
        away."""
        report = self.state.report
        if self.state.error or (report and report.verdict is not Verdict.NOT_ATTEMPTED) or self.passed:
            return ""
        problem = self.state.problem
        frame = self.reviews.frame(problem)
        given = frame.stub if frame else catalog.stub_text(problem)
        return f"{page.sections(problem)['The problem']}\n\nPress p for the whole page.\n\n```python\n{given}```\n"

    def ending(self) -> list[str]:
        if not self.passed:
            return []
        lines = summary(self.reviews.memory(self.state.problem), self.reviews, self.state.problem)
        choices = ", ".join(f"{number} {word}" for number, word in RATINGS.items())
        return [*lines, f"To correct the rating, press {choices}."]

    def question(self) -> str:
        return "Press s again to give up, which ends the review, and see the solution."

    def solution(self) -> str:
        """Returns the program of which the core was taken out, or the reference. Who has not passed has now given
        up."""
        reference, frame = super().solution(), self.reviews.frame(self.state.problem)
        return frame.text if frame else reference

    def next_problem(self) -> Problem:
        if (found := self.reviews.next_problem(self.state.problem)) is None:
            raise UsageError("Nothing else is due today.")
        return found

    def act(self, key: str) -> str:
        problem = self.state.problem
        if key == "c" and not self.passed:
            clock = self.reviews.clock(problem)
            if clock.runs:
                self.reviews.pause(problem)
                return "The clock is paused."
            clock.start()
            return "The clock runs."
        if key.isdecimal() and int(key) in RATINGS and self.passed:
            self.reviews.correct(problem, int(key))
            return f"Rated {RATINGS[int(key)]}."
        return ""

    def _look_up_due(self) -> None:
        """Does nothing: the banner shows the clock instead."""
