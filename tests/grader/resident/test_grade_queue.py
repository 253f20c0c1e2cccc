"""The order of gradings, which of them are ended, and what is published. The judge is one that the test holds up."""

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from commandline.errors import CommandError, UsageError
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.errors import ClosedError, SupersededError
from grader.judge.judge import Listener
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Problem
from grader.resident import grade_queue
from grader.resident.grade_queue import Begun, Dropped, Failed, Graded, GradeQueue, News, Request

pytestmark = pytest.mark.fast
FIRST, SECOND, THIRD = (catalog.find(word) for word in ("01", "02", "04"))
SECONDS = 20


class Held:
    """A judge that works on a submission until it is let go, or until the submission is superseded."""

    def __init__(self) -> None:
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.release = threading.Semaphore(0)
        self.superseded: list[Submission] = []
        self.fails: Exception | None = None

    def grade(self, problem: Problem, submission: Submission, *, listener: Listener) -> Report:
        self.begun.put(submission.sources[problem.name])
        assert self.release.acquire(timeout=SECONDS)
        if any(each is submission for each in self.superseded):
            listener.on_check(CheckResult(problem.checks[0], Verdict.ERROR, "its process was killed"))
            raise SupersededError
        if self.fails:
            raise self.fails
        results = [CheckResult(check, Verdict.PASS) for check in problem.checks]
        listener.say("step 1 of 2")
        listener.on_check(results[0])
        return Report(problem, submission.filename, results)

    def supersede(self, submission: Submission) -> None:
        self.superseded.append(submission)
        self.release.release()

    def begins(self) -> str:
        """The text of the next grading, once it has begun."""
        return self.begun.get(timeout=SECONDS)


class Desk:
    """A workspace, the queue of its files, and what is published of each request."""

    def __init__(self, folder: Path) -> None:
        self.space, self.judge = Workspace(folder), Held()
        self.queue = GradeQueue(self.judge)

    def save(self, problem: Problem, text: str, seen: list[News] | None = None) -> "queue.SimpleQueue[News]":
        """Writes a text and requests its grading."""
        self.space.file(problem).write_text(text)
        return self.request(problem, seen)

    def request(self, problem: Problem, seen: list[News] | None = None) -> "queue.SimpleQueue[News]":
        """Requests a grading. `seen` also gets what is published."""
        published: queue.SimpleQueue[News] = queue.SimpleQueue()

        def publish(news: News) -> None:
            if seen is not None:
                seen.append(news)
            published.put(news)

        self.queue.request(Request(problem, self.space, publish))
        return published


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.queue.close()
    desk.judge.release.release(100)


def end(published: "queue.SimpleQueue[News]") -> Graded | Failed | Dropped:
    """The last of what is published."""
    while not isinstance(news := published.get(timeout=SECONDS), Graded | Failed | Dropped):
        pass
    return news


def test_a_grading_is_published_as_it_happens(desk: Desk):
    published = desk.save(FIRST, "x = 1\n")
    desk.judge.release.release()
    begun, submission, said, check, graded = (published.get(timeout=SECONDS) for _ in range(5))
    assert (begun, said) == (Begun(), "step 1 of 2")
    assert isinstance(submission, Submission)
    assert submission.sources[FIRST.name] == "x = 1\n"
    assert isinstance(check, CheckResult)
    assert isinstance(graded, Graded)
    assert (graded.report.verdict, graded.digest) == (Verdict.PASS, desk.space.digest(FIRST))
    assert graded.submission is submission


def test_files_are_graded_in_turn_each_once_and_as_it_is_by_then(desk: Desk):
    desk.save(FIRST, "first")
    assert desk.judge.begins() == "first"
    former = desk.save(SECOND, "old")
    desk.save(THIRD, "third")
    newer = desk.save(SECOND, "new")
    assert end(former) == Dropped(is_last=False)
    desk.judge.release.release(3)
    assert [desk.judge.begins() for _ in range(2)] == ["new", "third"]
    assert isinstance(end(newer), Graded)
    assert desk.judge.superseded == []


def test_a_newer_text_ends_the_grading_of_the_older_one_and_of_no_other(desk: Desk):
    older = desk.save(FIRST, "old")
    desk.judge.begins()
    desk.save(SECOND, "other")
    same = desk.request(FIRST)
    assert desk.judge.superseded == [], "the same text, saved again"
    newer = desk.save(FIRST, "new")
    assert end(older) == end(same) == Dropped(is_last=False)
    desk.judge.release.release(2)
    assert isinstance(end(newer), Graded)
    assert [desk.judge.begins() for _ in range(2)] == ["other", "new"]


def test_what_is_stopped_has_no_verdict(desk: Desk):
    seen: list[News] = []
    running = desk.save(FIRST, "running", seen)
    desk.judge.begins()
    again, waiting = desk.request(FIRST), desk.save(SECOND, "waiting")
    desk.queue.stop(desk.space.file(FIRST))
    assert (end(again), end(running)) == (Dropped(is_last=False), Dropped(is_last=True))
    assert not any(isinstance(news, CheckResult) for news in seen), "what a killed process gives is not published"
    assert desk.judge.begins() == "waiting"
    desk.queue.withdraw(desk.space.file(SECOND))  # it has begun
    desk.judge.release.release()
    assert isinstance(end(waiting), Graded)


def test_what_is_withdrawn_is_not_graded(desk: Desk):
    desk.save(FIRST, "running")
    desk.judge.begins()
    waiting, after = desk.save(SECOND, "waiting"), desk.save(THIRD, "after")
    desk.queue.withdraw(desk.space.file(SECOND))
    assert end(waiting) == Dropped(is_last=True)
    desk.judge.release.release(2)
    assert isinstance(end(after), Graded)
    assert desk.judge.begins() == "after"


def test_whatever_goes_wrong_is_a_sentence_and_the_next_save_is_graded(desk: Desk):
    missing = end(desk.request(FIRST))
    assert isinstance(missing, Failed)
    assert isinstance(missing.error, UsageError)
    desk.space.file(FIRST).write_bytes(b"\xff\x00")
    binary = end(desk.request(FIRST))
    assert isinstance(binary, Graded)
    assert (binary.report.verdict, binary.submission) == (Verdict.ERROR, None)
    for error, sentence in {
        ValueError("deep"): "Internal error (not your fault): ValueError: deep",
        CommandError("No room."): "No room.",
    }.items():
        desk.judge.fails = error
        desk.judge.release.release()
        failed = end(desk.save(FIRST, "x = 1\n"))
        assert isinstance(failed, Failed)
        assert str(failed.error) == sentence
    desk.judge.fails = None
    desk.judge.release.release()
    assert isinstance(end(desk.request(FIRST)), Graded)


def test_a_verdict_that_cannot_be_recorded_is_a_sentence(desk: Desk):
    published: queue.SimpleQueue[News] = queue.SimpleQueue()

    def publish(news: News) -> None:
        published.put(news)
        if isinstance(news, Graded):
            raise UsageError("The disk is full.")

    desk.space.file(FIRST).write_text("x = 1\n")
    desk.judge.release.release()
    desk.queue.request(Request(FIRST, desk.space, publish))
    assert isinstance(end(published), Graded)
    failed = end(published)
    assert isinstance(failed, Failed)
    assert str(failed.error) == "The disk is full."


def test_an_editor_may_empty_a_file_before_it_writes_it(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grade_queue, "EMPTY", SECONDS)
    emptied = desk.save(FIRST, "")
    assert emptied.get(timeout=SECONDS) == Begun()
    written = desk.save(FIRST, "written")
    assert end(emptied) == Dropped(is_last=False)
    assert desk.judge.begins() == "written"
    desk.judge.release.release()
    assert isinstance(end(written), Graded)


def test_closing_leaves_no_request_without_an_end(desk: Desk):
    running = desk.save(FIRST, "running")
    desk.judge.begins()
    waiting = desk.save(SECOND, "waiting")
    desk.queue.close()
    assert end(waiting) == Dropped(is_last=True)
    assert end(desk.request(THIRD)) == Dropped(is_last=True)
    desk.judge.fails = ClosedError()  # as a resident judge that is closed
    desk.judge.release.release()
    assert end(running) == Dropped(is_last=True)
    assert desk.judge.begun.empty()
