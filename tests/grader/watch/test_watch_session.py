"""What a session of watch mode grades, and when. The resident judge is replaced by one that only counts."""

import threading
import time

import pytest

from commandline.errors import CommandError, UsageError
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.errors import SupersededError
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.watch.watch_session import WatchSession

GPT, BLOCK, ATTENTION = (catalog.find(word) for word in ("06", "05", "03"))


class Counting:
    """Passes every file, and keeps what was graded."""

    def __init__(self) -> None:
        self.graded: list[tuple[str, str]] = []

    def supersede(self, submission):
        pass

    def grade(self, problem, submission, listener):
        self.graded.append((str(problem.name), submission.sources[problem.name]))
        return Report(problem, submission.filename, [CheckResult(check, Verdict.PASS) for check in problem.checks])


@pytest.fixture
def judge() -> Counting:
    return Counting()


@pytest.fixture
def session(judge, tmp_path):
    space = Workspace(tmp_path)
    for name, text in catalog.reference_sources(GPT).items():
        (tmp_path / f"{name}.py").write_text(text)
    session = WatchSession(space, GPT, judge, lambda: None)
    session.start()
    yield session
    session.close()


def graded(judge: Counting, number: int) -> list[tuple[str, str]]:
    """What has been graded, after that many gradings and a silence."""
    deadline = time.monotonic() + 20
    while len(judge.graded) < number and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.7)
    return judge.graded


def test_a_save_of_the_file_or_of_a_piece_that_it_imports_is_graded(session, judge):
    assert [name for name, _ in graded(judge, 1)] == [GPT.name]
    block = session.space.file(BLOCK)
    block.write_text(block.read_text() + "\n")
    assert [name for name, _ in graded(judge, 2)] == [GPT.name] * 2
    schedule = catalog.find("10")
    session.space.file(schedule).write_text(catalog.stub_text(schedule))  # as `grade start` writes many
    (session.space.folder / "notes.py").write_text("x = 1\n")
    assert len(graded(judge, 2)) == 2


def test_saves_in_quick_succession_are_one(session, judge):
    graded(judge, 1)
    text = session.file.read_text()
    for number in range(10):
        session.file.write_text(f"{text}\n# {number}\n")
    sources = [source for _, source in graded(judge, 2)[1:]]
    assert sources[-1].endswith("# 9\n")
    assert len(sources) < 3


def test_a_file_that_is_replaced_is_still_watched(session, judge):
    """Many editors write a new file and rename it."""
    graded(judge, 1)
    for number in range(2):
        new = session.file.with_suffix(".new")
        new.write_text(f"# {number}\n")
        new.replace(session.file)
        assert graded(judge, number + 2)[-1][1] == f"# {number}\n"


def test_it_follows_the_file_that_is_saved(session, judge):
    graded(judge, 1)
    schedule = catalog.find("10")
    session.space.file(schedule).write_text("x = 1\n")
    assert graded(judge, 2)[-1] == (schedule.name, "x = 1\n")
    assert session.banner() == f"{schedule.name}.py was saved: watching problem 10 now."
    session.open(GPT)
    assert "was saved" not in session.banner()


def test_it_stays_on_a_problem_until_told(session, judge):
    graded(judge, 1)
    assert session.passed
    assert session.state.problem is GPT
    following = session.next_problem()
    assert following.label == "07"
    session.open(following)
    assert graded(judge, 2)[-1][0] == following.name


def test_a_save_ends_the_grading_of_the_former_text(session, judge):
    graded(judge, 1)
    entered, superseded = threading.Event(), threading.Event()
    grade = judge.grade

    def endless(problem, submission, listener):
        entered.set()
        assert superseded.wait(10)
        judge.grade = grade
        raise SupersededError

    judge.grade = endless
    judge.supersede = lambda submission: superseded.set() if entered.is_set() else None
    session.grade()
    assert entered.wait(10)
    session.file.write_text("# newer\n")
    assert graded(judge, 2)[-1][1] == "# newer\n"
    assert session.state.report


def test_a_grading_that_ends_late_is_not_shown_for_another_problem(session, judge):
    graded(judge, 1)
    entered, leave = threading.Event(), threading.Event()
    grade = judge.grade

    def slow(problem, submission, listener):
        entered.set()
        assert leave.wait(10)
        return grade(problem, submission, listener)

    judge.grade = slow
    session.grade()
    assert entered.wait(10)
    judge.grade = grade
    session.open(ATTENTION)
    leave.set()
    graded(judge, 3)
    assert session.state.report.problem is ATTENTION


def test_a_missing_or_unreadable_file_has_a_sentence(session, judge):
    graded(judge, 1)
    session.file.write_bytes(b"\xff\x00\x00")
    deadline = time.monotonic() + 20
    while (
        session.state.report is None or session.state.report.verdict is Verdict.PASS
    ) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "binary" in session.state.report.checks[0].message
    session.file.unlink()
    while not session.state.error and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "There is no file" in session.state.error


def test_all_passed(session, monkeypatch):
    monkeypatch.setattr(Workspace, "next_problem", lambda self, after=None: None)
    with pytest.raises(UsageError, match="every other problem"):
        session.next_problem()


class NoWorkers:
    """Starts no worker, and says so."""

    def worker(self, job):
        raise CommandError("no worker today")


@pytest.mark.parametrize(("word", "plays_at_once"), [("06", True), ("08", False)])
def test_what_has_passed_is_played_unless_it_must_train_first(word: str, plays_at_once: bool, judge, tmp_path):
    problem = catalog.find(word)
    for name, text in catalog.reference_sources(problem).items():
        (tmp_path / f"{name}.py").write_text(text)
    session = WatchSession(Workspace(tmp_path), problem, judge, lambda: None, workers=NoWorkers())
    session.start()
    try:
        graded(judge, 1)
        played = session.played
        assert (played is not None) == plays_at_once
        assert played is None or (played.said, played.is_whole) == ("no worker today", False)
        session.play()
        assert session.played is not played
        assert session.played
        assert session.played.is_whole
        session.file.write_text(session.file.read_text() + "\n# again\n")
        graded(judge, 2)
        assert session.played is None or not session.played.is_whole, "a save ends the play"
    finally:
        session.close()


def test_nothing_is_played_that_was_not_graded(judge, tmp_path):
    session = WatchSession(Workspace(tmp_path), GPT, judge, lambda: None, workers=NoWorkers())
    with pytest.raises(UsageError, match="nothing to see at work"):
        session.play()
