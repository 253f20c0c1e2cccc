"""A session of watch mode: one problem at a time, graded at every save, without a word on how it is shown."""

import contextlib
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import watchfiles

from commandline.errors import CommandError, UsageError
from grader.course import catalog, page, plays
from grader.course.workspace import Workspace
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.practice import reminders
from grader.problem import Problem
from grader.resident import grade_file
from grader.resident.grade_queue import Begun, Failed, Graded, GradeQueue, Judge, News, Request
from grader.resident.resident import NewCodeError
from grader.watch.watch_play import Shown, WatchPlay

DEBOUNCE, QUIET = 200, 50  # milliseconds: the longest wait for further changes, and the silence that ends it earlier
POLL = 300  # milliseconds between two looks at the folder, where the system reports no changes


@dataclass(frozen=True)
class State:
    """The state of watch mode that is shown.

    Attributes:
        problem: The current problem.
        grading: Whether its file is being graded.
        checks: The results of that grading so far.
        report: The last verdict, which stays while the next one is computed.
        error: A sentence on why there is no verdict.
        note: The progress of a long run.
        outdated: Whether the program must be started again.
        mended: The report whose remedy the learner has asked for.
    """

    problem: Problem
    grading: bool = False
    checks: tuple[CheckResult, ...] = ()
    report: Report | None = None
    error: str = ""
    note: str = ""
    outdated: bool = False
    mended: Report | None = None

    @property
    def fix(self) -> bool:
        """Whether to show how to mend the misconception of the last verdict."""
        return self.report is not None and self.mended is self.report


class WatchSession:
    """Grades the workspace's file of a problem whenever it, or a course module that it imports, is saved.

    Calls `changed` from other threads when the state has changed. With `poll`, it looks for changes itself instead of
    being notified. With `workers`, a file that has passed is played up to its first exhibit. `keys` are the keys that
    it offers, each with a word for the footer, which leaves out those that a verdict names, and `refresh` the seconds
    between two updates of the display, if it changes without an event.
    """

    keys: Mapping[str, str] = {
        "n": "next", "h": "hint", "f": "", "p": "page", "l": "list", "e": "edit", "r": "run", "s": "solution",
        "v": "", "q": "quit",
    }  # fmt: skip
    refresh: float | None = None
    follows = True  # whether it changes to a problem whose file is saved

    def __init__(
        self, space: Workspace, problem: Problem, judge: Judge, changed: Callable[[], None], *, poll: bool = False,
        workers: Workers | None = None,
    ) -> None:  # fmt: skip
        self.space, self.state = space, State(problem)
        self._queue, self._changed, self._poll = GradeQueue(judge), changed, poll
        self._play = WatchPlay(workers, changed) if workers else None
        self._submission: Submission | None = None  # what was graded last
        self._names, self._due, self.followed = {str(problem.name)}, "", ""
        self._graded: dict[str, tuple[int, int]] = {}  # the stamps of the files that were graded last
        self._finished: tuple[Report | None, str] = (None, "")  # what the last verdict finished
        self._closed, self._changing = threading.Event(), threading.Lock()

    def start(self) -> None:
        """Starts to watch, and grades the file. Raises UsageError if the file cannot be created."""
        self.open(self.state.problem)
        for target in (self._watch, self._look_up_due):
            threading.Thread(target=target, daemon=True).start()

    def close(self) -> None:
        """Ends the session. A grading that is running has no result."""
        self._closed.set()
        self._end_play()
        self._queue.close()

    def open(self, problem: Problem, *, followed: str = "") -> None:
        """Changes to a problem, and grades its file, which is created from the stub if it is missing. Raises
        UsageError.

        `followed` is a sentence on why, if the learner has not asked for it.
        """
        self.space.add(problem)
        self._queue.withdraw(self.file)
        self._end_play()
        self.followed = followed
        with self._changing:
            self._names, self.state = {str(problem.name)}, State(problem)
        self.grade()
        self._changed()

    def grade(self) -> None:
        """Grades the file soon, and ends the grading of an older text of it."""
        problem = self.state.problem
        self._queue.request(Request(problem, self.space, partial(self._publish, problem)))

    def banner(self) -> str:
        """Returns a line below the problem's title; empty if there is nothing to say."""
        return self.followed or self._due

    def opening(self) -> str:
        """Returns Markdown to show in place of a verdict, as long as the learner has written nothing."""
        return ""

    def ending(self) -> list[str]:
        """Returns lines to show above a verdict with which the work ends."""
        report = self.state.report
        if report is not self._finished[0]:
            has_passed = report is not None and report.verdict is Verdict.PASS
            self._finished = (report, self.space.finished(self.state.problem) if has_passed else "")
        return [said] if (said := self._finished[1]) else []

    def question(self) -> str:
        """Returns the question before a solution is shown to somebody who has not passed."""
        return f"You have not passed problem {self.state.problem.label}. Press s again to give up and see the solution."

    def act(self, key: str) -> str:
        """Acts on a key that is not among `keys`. Returns a sentence to show. Raises UsageError."""
        return ""

    @property
    def file(self) -> Path:
        return self.space.file(self.state.problem)

    @property
    def passed(self) -> bool:
        """Whether the problem has been passed, now or before."""
        return self.space.standing(self.state.problem).passed

    def next_problem(self) -> Problem:
        """Returns the first problem after this one that is not passed, else the first one of all. Raises UsageError."""
        found = self.space.next_problem(self.state.problem)
        if found is None:
            raise UsageError("You have passed every other problem of the course.")
        return found

    def mend(self) -> str:
        """Returns how to mend the misconception of the last verdict, which is noted like a hint. Raises UsageError if
        there is nothing to tell."""
        report = self.state.report
        if report is None or report.misconception is None or not report.misconception.fix:
            raise UsageError("There is no likely cause whose remedy could be told. Press h for a hint.")
        self.space.remember(self.state.problem, fix=report.misconception.name)
        with self._changing:
            self.state = replace(self.state, mended=report)
        return report.misconception.fix

    @property
    def played(self) -> Shown | None:
        """What the play of the file has shown; None if nothing is played."""
        return self._play.shown if self._play else None

    def play(self) -> None:
        """Plays all of the file that was graded last. Raises UsageError if there is nothing to play."""
        report = self.state.report
        if self._play is None or self._submission is None or report is None or not report.can_play:
            raise UsageError("There is nothing to see at work: either your file does not run, or it has no play.")
        self._play.begin(self.state.problem, self._submission, is_whole=True)

    def _play_first(self, problem: Problem, report: Report) -> None:
        """Plays a file that has passed up to its first exhibit. One that must train first waits to be asked."""
        can_play = report.verdict is Verdict.PASS and report.can_play and not plays.required(problem).trains
        if self._play and self._submission and can_play and self.state.problem is problem:
            self._play.begin(problem, self._submission, is_whole=False)

    def _end_play(self) -> None:
        if self._play:
            self._play.end()

    def hints(self, *, more: bool) -> tuple[list[str], int]:
        """Returns the hints that the learner has seen, one more of them if asked for, and how many there are."""
        problem = self.state.problem
        hints, before = page.hints(problem), self.space.hints_seen(problem)
        seen = min(before + more, len(hints))
        if seen > before:
            self.space.remember(problem, hints=seen)
        return hints[:seen], len(hints)

    def editing(self, editor: str) -> list[str]:
        """Returns the command that opens the file in an editor. Raises UsageError."""
        try:
            command = shlex.split(editor)
        except ValueError as error:
            raise UsageError(f"{editor} is not a valid command: {error}.") from None
        if not command:
            raise UsageError("Set EDITOR, or start with `grade watch --edit-cmd COMMAND`.")
        return [*command, str(self.file)]

    def solution(self) -> str:
        """Returns the reference below its reasons. A learner who has not passed has now given up. Raises UsageError if
        this copy of the course has none."""
        text = catalog.explained_solution(self.state.problem)
        if not self.passed:
            self.space.remember(self.state.problem, given_up=True)
        return text

    def _look_up_due(self) -> None:
        """Looks up the due reviews while the first file is graded, because computing the dates takes a moment."""
        with contextlib.suppress(Exception):  # a notice is not worth a message
            self._due = reminders.due_text(self.space)
            self._changed()

    def _watch(self) -> None:
        """Waits for saves. Where the system cannot report them, looks at the folder again and again."""
        try:
            self._watch_folder(poll=self._poll)
        except (OSError, RuntimeError):
            try:
                self._watch_folder(poll=True)
            except (OSError, RuntimeError) as error:
                reason = f"{self.space.folder} cannot be watched ({error}). Press r to grade."
                self._show(self.state.problem, lambda state: replace(state, error=reason))

    def _watch_folder(self, *, poll: bool) -> None:
        for changes in watchfiles.watch(
            self.space.folder, watch_filter=self._is_watched,
            debounce=DEBOUNCE, step=QUIET, stop_event=self._closed, rust_timeout=1000, yield_on_timeout=True,
            force_polling=poll or None, poll_delay_ms=POLL, recursive=False, raise_interrupt=False,
        ):  # fmt: skip
            saved = {Path(path).stem for _, path in changes}
            if saved and not saved & self._names:
                self._follow(saved)
                continue
            # Looking misses a second save in the same second, and one before the first look.
            if changes or self._stamps() != self._graded:
                self.grade()

    def _is_watched(self, change: object, path: str) -> bool:
        name = Path(path).stem
        return path.endswith(".py") and (name in self._names or (self.follows and name in catalog.names()))

    def _follow(self, saved: set[str]) -> None:
        """Changes to the problem of another file that was saved, unless the file is a stub, as a command creates
        many."""
        for problem in (catalog.load(name) for name in sorted(saved)):
            with contextlib.suppress(CommandError, submission_.UnreadableSubmissionError):
                text = submission_.read(problem, self.space.file(problem), self.space.modules).sources[problem.name]
                if text.strip() != catalog.stub_text(problem).strip():
                    file = self.space.file(problem).name
                    self.open(problem, followed=f"{file} was saved: watching problem {problem.label} now.")
                    return

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Returns the time of modification and the size of each file that is watched."""
        stamps = {}
        for name in self._names:
            with contextlib.suppress(OSError):
                status = (self.space.folder / f"{name}.py").stat()
                stamps[name] = (status.st_mtime_ns, status.st_size)
        return stamps

    def _publish(self, problem: Problem, news: News) -> None:
        """Shows the events of a grading of the problem, and records its verdict. Raises UsageError."""
        match news:
            case Begun():
                self._end_play()  # the verdict comes first
                self._graded = self._stamps()
                self._show(problem, lambda state: State(problem, grading=True, report=state.report))
            case Submission(sources=sources):
                self._submission = news
                self._watch_imports(problem, {str(problem.name), *sources})
            case CheckResult():
                self._show(problem, lambda state: replace(state, checks=(*state.checks, news)))
            case str():
                self._show(problem, lambda state: replace(state, note=news))
            case Graded():
                grade_file.remember(self.space, news.report, news.digest)
                self._show(problem, lambda _: State(problem, report=news.report))
                self._play_first(problem, news.report)
            case Failed(NewCodeError()):
                self._show(problem, lambda _: State(problem, outdated=True))
            case Failed():
                self._show(problem, lambda _: State(problem, error=str(news.error)))

    def _watch_imports(self, problem: Problem, names: set[str]) -> None:
        """Watches the files with these names: that of the problem, and those that it imports."""
        with self._changing:
            if self.state.problem is problem and names != self._names:
                self._names = names
                self._graded = {name: self._graded.get(name, stamp) for name, stamp in self._stamps().items()}

    def _show(self, problem: Problem, new: Callable[[State], State]) -> None:
        """Replaces the state, unless another problem has been opened meanwhile."""
        with self._changing:
            if self.state.problem is not problem:
                return
            self.state = new(self.state)
        self._changed()
