"""What a session of watch mode grades, and when. The resident judge is replaced by one that only counts."""

import threading
import time

import pytest

from commandline.errors import UsageError
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
        self.newer: list[str] = []

    def supersede(self, problem, submission):
        self.newer.append(submission.sources[problem.name])

    def grade(self, problem, submission, listener):
        self.graded.append((str(problem.name), submission.sources[problem.name]))
        return Report(problem, submission.filename, [CheckResult(check, Verdict.PASS) for check in problem.checks])


@pytest.fixture
def session(tmp_path):
    resident, space = Counting(), Workspace(tmp_path)
    for name, text in catalog.reference_sources(GPT).items():
        (tmp_path / f"{name}.py").write_text(text)
    session = WatchSession(space, GPT, resident, lambda: None)
    session.start()
    yield session
    session.close()


def graded(session: WatchSession, number: int) -> list[tuple[str, str]]:
    """What has been graded, after that many gradings and a silence."""
    deadline = time.monotonic() + 20
    while len(session._resident.graded) < number and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.7)
    return session._resident.graded


def test_a_save_of_the_file_or_of_a_piece_that_it_imports_is_graded(session):
    assert [name for name, _ in graded(session, 1)] == [GPT.name]
    block = session.space.file(BLOCK)
    block.write_text(block.read_text() + "\n")
    assert [name for name, _ in graded(session, 2)] == [GPT.name] * 2
    schedule = catalog.find("10")
    session.space.file(schedule).write_text(catalog.stub_text(schedule))  # as `grade start` writes many
    (session.space.folder / "notes.py").write_text("x = 1\n")
    assert len(graded(session, 2)) == 2


def test_saves_in_quick_succession_are_one(session):
    graded(session, 1)
    text = session.file.read_text()
    for number in range(10):
        session.file.write_text(f"{text}\n# {number}\n")
    sources = [source for _, source in graded(session, 2)[1:]]
    assert sources[-1].endswith("# 9\n")
    assert len(sources) < 3


def test_a_file_that_is_replaced_is_still_watched(session):
    """Many editors write a new file and rename it."""
    graded(session, 1)
    for number in range(2):
        new = session.file.with_suffix(".new")
        new.write_text(f"# {number}\n")
        new.replace(session.file)
        assert graded(session, number + 2)[-1][1] == f"# {number}\n"


def test_it_follows_the_file_that_is_saved(session):
    graded(session, 1)
    schedule = catalog.find("10")
    session.space.file(schedule).write_text("x = 1\n")
    assert graded(session, 2)[-1] == (schedule.name, "x = 1\n")
    assert session.banner() == f"{schedule.name}.py was saved: watching problem 10 now."
    session.open(GPT)
    assert "was saved" not in session.banner()


def test_it_stays_on_a_problem_until_told(session):
    graded(session, 1)
    assert session.passed
    assert session.state.problem is GPT
    following = session.next_problem()
    assert following.label == "07"
    session.open(following)
    assert graded(session, 2)[-1][0] == following.name


def test_a_save_ends_the_grading_of_the_former_text(session):
    graded(session, 1)
    entered, superseded = threading.Event(), threading.Event()
    grade = session._resident.grade

    def endless(problem, submission, listener):
        entered.set()
        assert superseded.wait(10)
        session._resident.grade = grade
        raise SupersededError

    session._resident.grade = endless
    session._resident.supersede = lambda problem, submission: superseded.set() if entered.is_set() else None
    session.grade()
    assert entered.wait(10)
    session.file.write_text("# newer\n")
    assert graded(session, 2)[-1][1] == "# newer\n"
    assert session.state.report


def test_a_grading_that_ends_late_is_not_shown_for_another_problem(session):
    graded(session, 1)
    entered, leave = threading.Event(), threading.Event()
    grade = session._resident.grade

    def slow(problem, submission, listener):
        entered.set()
        assert leave.wait(10)
        return grade(problem, submission, listener)

    session._resident.grade = slow
    session.grade()
    assert entered.wait(10)
    session._resident.grade = grade
    session.open(ATTENTION)
    leave.set()
    graded(session, 3)
    assert session.state.report.problem is ATTENTION


def test_a_missing_or_unreadable_file_has_a_sentence(session):
    graded(session, 1)
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
