"""An evening of practice, as a learner has it: reviews on a terminal, then hunts, one of which is rewritten instead of
mended."""

import os
import sys

import pytest

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.practice import hunts
from grader.practice.hunting import HuntSpace
from grader.practice.review import ReviewSpace
from grader.watch.review_session import ReviewSession
from tests.conftest import Grade
from tests.grader.watch.terminal import Terminal
from tests.grader.watch.test_watch_session import Counting, graded

EMBEDDING, ATTENTION = catalog.find("01"), catalog.find("02")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Workspace:
    """A workspace in which 01 and 02 were passed today, 02 at the second try."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    home = Workspace(tmp_path / "attempts")
    home.folder.mkdir()
    home.remember(ATTENTION, verdict="FAIL", score=2, mistake="causal mask missing")
    for problem in (EMBEDDING, ATTENTION):
        home.file(problem).write_text(catalog.solution_text(problem))
        home.remember(problem, verdict="PASS", score=problem.points)
    return home


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
def test_reviews_a_month_later(home, grade: Grade):
    """02 is due for the longest, and its memory is young: the core. Then 01, whole, and given up."""
    space = ReviewSpace.of(home)
    later = f"{space.memory(EMBEDDING).due}"
    assert "2 reviews due today" in grade("--workspace", home.folder, "--today", later, "list").out
    with Terminal("--workspace", home.folder, "--today", later, "review", columns=100) as terminal:
        terminal.wait_for("Problem 02", "Review of the core, 5 lines. 0:0", "Press p for the whole page",
                          "# Write this part again: 5 lines in the reference.", "c pause")  # fmt: skip
        terminal.type("c")
        terminal.wait_for("paused (c continues)")
        terminal.type("c")
        space.file(ATTENTION).write_text(catalog.solution_text(ATTENTION))
        terminal.wait_for(
            "Review done in 0:", "At the first pass: 2 gradings, “causal mask missing”. Now: 1 grading.", "Rated easy"
        )
        terminal.type("3")
        terminal.wait_for("Rated good.")
        terminal.type("n")
        terminal.wait_for("Problem 01", "Review of the whole. 0:0")
        terminal.type("s")
        terminal.wait_for("Press s again to give up")
        terminal.type("s")
        terminal.wait_for("class TokenAndPositionEmbed", "self.pos_embed[:T]")
        terminal.type("q")
        assert terminal.exit_code() == 0
    assert [review.rating for review in space.memory(ATTENTION).reviews] == [3, 3]
    assert [review.rating for review in space.memory(EMBEDDING).reviews] == [4, 1]
    assert home.file(ATTENTION).read_text() == catalog.solution_text(ATTENTION)
    assert "0 of" not in grade("--workspace", home.folder, "--today", later, "review", "--list").out


def test_a_review_stays_on_its_problem_whatever_is_saved_beside_it(home):
    """The files of other reviews are in the same folder."""
    resident = Counting()
    session = ReviewSession(ReviewSpace.of(home), ATTENTION, resident, lambda: None)
    session.start()
    try:
        assert [name for name, _ in graded(resident, 1)] == [ATTENTION.name]
        session.space.file(EMBEDDING).write_text("x = 1\n")
        assert len(graded(resident, 1)) == 1
        assert session.state.problem == ATTENTION
    finally:
        session.close()


@pytest.mark.thorough
def test_hunts(home, grade: Grade):
    """The fault that the learner made comes first. A rewrite is told that it is one."""

    def hunt(*args: object):
        return grade("--workspace", home.folder, "hunt", *args)

    began = hunt("02")
    assert (began.code, began.err) == (0, "")
    assert "too good to be true" in began.out
    space = HuntSpace.of(home)
    current = space.under_way(ATTENTION)
    program = space.program(current)
    assert program.hunt.misconception.name == "causal mask missing"
    assert "cannot" not in (asked := hunt("--hint").out)
    assert asked.startswith(current.kind.questions[0])
    assert "is as in the sound program" in hunt("--line", 1).out
    assert "Which idea is behind it?" in hunt("--line", min(program.fault)).out
    wrong, right = ("ABCD"[place] for place in ((program.answer + 1) % 4, program.answer))
    assert hunt("--idea", wrong).out.startswith("No")
    assert hunt("--idea", right).out.startswith("Yes")
    assert (hunt("--mend").code, "Not yet." in hunt("--mend").out) == (1, True)
    space.file(ATTENTION).write_text(catalog.text_of(catalog.styles(ATTENTION)[2]))
    rewritten = hunt("--mend")
    assert (rewritten.code, "it is a rewrite" in rewritten.out) == (1, True)
    assert "kept in" in hunt("--restart").out
    space.file(ATTENTION).write_text(program.correct)
    mended = hunt("--mend")
    assert (mended.code, "It passes. The program is mended." in mended.out) == (0, True), mended
    assert "How an experienced person finds it" in mended.out
    second = hunt("02")
    assert "A hunt in problem 02" in second.out
    gave_up = hunt("--give-up")
    assert "The fault is in line" in gave_up.out
    refused = hunt("07")
    assert (refused.code, "You have not passed problem 07" in refused.err) == (2, True)
    assert hunt("--line", 3).err.startswith("grade: No hunt is under way")


def test_a_review_without_a_terminal(home, grade: Grade, tmp_path):
    due = f"{ReviewSpace.of(home).memory(ATTENTION).due}"
    first = grade("--workspace", home.folder, "--today", due, "review", "02", "--grade")
    assert (first.code, "NOT ATTEMPTED" in first.out) == (1, True)
    again = grade("--workspace", home.folder, "--today", due, "review", "02", "--whole")
    assert "is under way: the core" in again.err
    ended = grade("--workspace", home.folder, "--today", due, "review", "02", "--end")
    assert "Review given up" in ended.out
    corrected = grade("--workspace", home.folder, "--today", due, "review", "02", "--rate", "hard")
    assert corrected.out.startswith("Rated hard. Next review of problem 02:")
    assert "Nothing is due today" in grade("--workspace", home.folder, "--today", due, "review").err
    assert os.listdir(home.folder / "reviews") == [f"{ATTENTION.name}.py"]
    assert hunts.of(EMBEDDING, styles=False)
