"""The resident judge: the verdicts of `grade problem`, workers that serve one submission, restarts, a prompt end."""

import os
import threading
import time

import psutil
import pytest

from grader.course import catalog
from grader.errors import ClosedError, SupersededError
from grader.isolation.sandbox import ForkServer
from grader.judge import judge
from grader.judge.judge import Listener
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.resident import version
from grader.resident.resident import NewCodeError, Resident

PROBLEM = catalog.find("04")
RIGHT = catalog.reference_sources(PROBLEM)[PROBLEM.name]


def submission(text: str) -> Submission:
    return Submission(f"{PROBLEM.name}.py", {PROBLEM.name: text})


def without_time(report: Report) -> dict[str, object]:
    return {
        key: value if key != "checks" else [(item.check.name, item.verdict, item.message) for item in report.checks]
        for key, value in vars(report).items()
        if key not in ("seconds", "counterexample", "problem")  # the problem may have been loaded again meanwhile
    }


def test_the_verdicts_are_those_of_a_grading_from_scratch(resident):
    """With the same isolation, for the first submission, which finds no spare workers, and for the next ones, which
    do."""
    fork_server = ForkServer()
    try:
        for text in (RIGHT, catalog.stub_text(PROBLEM), RIGHT):
            seen = []
            report = resident.grade(PROBLEM, submission(text), listener=Listener(on_check=seen.append))
            assert [item.check for item in seen] == list(PROBLEM.checks)
            assert without_time(report) == without_time(judge.grade(PROBLEM, submission(text), fork_server))
    finally:
        fork_server.close()


def test_a_worker_serves_one_submission(resident):
    """Nothing that a submission leaves in its process is there for the next one."""
    leaves = f"import os\nassert 'SEEN' not in os.environ\nos.environ['SEEN'] = 'yes'\n{RIGHT}"
    assert [resident.grade(PROBLEM, submission(leaves)).verdict for _ in range(2)] == [Verdict.PASS, Verdict.PASS]


def test_a_grading_that_is_superseded_ends_also_before_it_begins(resident):
    endless, ended, began = submission("while True: pass\n"), [], time.monotonic()

    def grade() -> None:
        try:
            ended.append(resident.grade(PROBLEM, endless, GradeOptions(timeout=60)))
        except SupersededError as error:
            ended.append(error)

    thread = threading.Thread(target=grade)
    thread.start()
    while not resident._running:
        time.sleep(0.01)
    resident.supersede(submission("while True: pass\n"))  # another submission, although it has the same text
    thread.join(0.2)
    assert thread.is_alive()
    resident.supersede(endless)
    thread.join()
    assert isinstance(ended[0], SupersededError)
    assert time.monotonic() - began < 50
    with pytest.raises(SupersededError):
        resident.grade(PROBLEM, endless)
    assert resident.grade(PROBLEM, submission(RIGHT)).verdict is Verdict.PASS


@pytest.mark.thorough
def test_an_edit_of_a_problem_restarts_the_fork_server(runtime_folder):
    def zygotes() -> set[int]:
        below = psutil.Process().children()
        return {process.pid for process in below if "grader.worker.zygote" in process.cmdline()}

    others = zygotes()
    with Resident() as resident:
        resident.grade(PROBLEM, submission(RIGHT))  # a fork server that has just been started has another command line
        before = zygotes() - others
        os.utime(PROBLEM.folder / "problem.py")
        assert resident.grade(PROBLEM, submission(RIGHT)).verdict is Verdict.PASS
        after = zygotes() - others
        assert len(before) == len(after) == 1
        assert before != after
    assert not zygotes() - others


def test_new_code_ends_a_resident_judge(runtime_folder, monkeypatch):
    with Resident() as resident:
        monkeypatch.setattr(version, "of_code", lambda: "other code")
        with pytest.raises(NewCodeError, match="Start this program again"):
            resident.grade(PROBLEM, submission(RIGHT))


def test_closing_ends_a_grading_that_hangs(runtime_folder):
    """In far less than the time limit, and without a verdict."""
    resident, ended = Resident(), threading.Event()

    def grade() -> None:
        with pytest.raises(ClosedError):
            resident.grade(PROBLEM, submission("while True:\n    pass\n"))
        ended.set()

    threading.Thread(target=grade, daemon=True).start()
    time.sleep(1)
    resident.close()
    assert ended.wait(10)
