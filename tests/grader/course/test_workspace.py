"""A learner's folder: nothing in it is ever lost."""

import json
import os
import stat

import pytest

from commandline.errors import UsageError
from grader.course import catalog, workspace
from grader.course.workspace import PROGRESS, Workspace

PROBLEM = catalog.find("07")


def test_start_makes_stubs_and_pages_and_says_what_is_new(tmp_path):
    space = Workspace(tmp_path / "attempts")
    assert len(space.start()) == 2 * len(catalog.names())
    assert space.file(PROBLEM).read_text() == catalog.stub_text(PROBLEM)
    page = (tmp_path / "attempts" / "pages" / f"{PROBLEM.name}.md").read_text()
    assert "## The problem" in page
    assert "## Hints" not in page
    assert space.start() == []


def test_a_file_is_never_overwritten(tmp_path):
    space = Workspace(tmp_path)
    space.file(PROBLEM).write_text("mine")
    new = space.start()
    assert space.file(PROBLEM) not in new
    assert space.file(PROBLEM).read_text() == "mine"


def test_a_page_that_changed_is_renewed(tmp_path):
    space = Workspace(tmp_path)
    space.start()
    page = tmp_path / "pages" / f"{PROBLEM.name}.md"
    page.write_text("old")
    assert space.start() == []
    assert page.read_text() != "old"


def test_progress_keeps_the_best(tmp_path):
    space = Workspace(tmp_path)
    space.remember(PROBLEM, verdict="PASS", score=6)
    space.remember(PROBLEM, verdict="FAIL", score=2)
    space.remember(PROBLEM, hints=2)
    assert space.progress()[PROBLEM.name] == {"verdict": "PASS", "score": 6, "hints": 2}
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS], "written beside and moved, with nothing left"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"problems": 3}', '{"problems": {"p07_next_token_loss": 3}}'])
def test_damaged_progress_is_no_progress(tmp_path, text):
    (tmp_path / PROGRESS).write_text(text)
    space = Workspace(tmp_path)
    assert space.progress() == {}
    space.remember(PROBLEM, score=1)
    assert json.loads((tmp_path / PROGRESS).read_text())["problems"][PROBLEM.name] == {"score": 1}


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "attempts").write_text("")
    with pytest.raises(UsageError, match="attempts"):
        Workspace(tmp_path / "attempts").start()


def test_found_from_inside(tmp_path, monkeypatch):
    Workspace(tmp_path).remember(PROBLEM, score=1)
    (tmp_path / "pages").mkdir()
    monkeypatch.chdir(tmp_path / "pages")
    assert workspace.find(None).folder == tmp_path
    assert workspace.find("elsewhere").folder.name == "elsewhere"


def test_readable_by_others(tmp_path):
    Workspace(tmp_path).remember(PROBLEM, score=1)
    assert stat.S_IMODE(os.stat(tmp_path / PROGRESS).st_mode) == 0o644
