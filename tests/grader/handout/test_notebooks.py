"""The notebooks that a teacher hands out. `tests/test_wheel.py` runs one."""

import json
from pathlib import Path

import nbformat
import pytest

from grader.course import catalog
from grader.handout import notebooks
from grader.judge import notebook as submitted
from tests.conftest import Grade

pytestmark = pytest.mark.fast


def test_every_problem_has_a_valid_notebook_that_can_be_handed_in():
    for problem in catalog.problems():
        made = notebooks.notebook(problem, "gpt-kata")
        nbformat.validate(nbformat.from_dict(made))
        text, _ = submitted.source(json.dumps(made).encode(), [entry.name for entry in problem.entries])
        assert "raise NotImplementedError" in text
        page = "".join(made["cells"][1]["source"])
        assert ("```math" in page, "## Hints" in page) == (False, False)
        assert page.count("$$") % 2 == 0


def test_nothing_is_overwritten(grade: Grade, tmp_path: Path):
    run = grade("export", "notebooks", "nbs", "--problems", "01-02", "--install", "https://example.org/kata.whl")
    assert (run.code, run.out.count("new  "), run.err) == (0, 2, "")
    first = tmp_path / "nbs" / "p01_token_embedding.ipynb"
    assert "%pip install --quiet https://example.org/kata.whl\n" in nbformat.read(first, as_version=4).cells[0].source
    first.write_text("mine")
    run = grade("export", "notebooks", "nbs", "--problems", "01-03")
    assert (run.out.count("kept "), run.out.count("new  "), first.read_text()) == (2, 1, "mine")


def test_a_folder_that_is_a_file(grade: Grade, tmp_path: Path):
    (tmp_path / "file").write_text("")
    run = grade("export", "notebooks", "file", "--problems", "01")
    assert (run.code, run.out) == (2, "")


def test_a_course_that_a_notebook_could_not_find_is_refused(grade: Grade):
    course = Path(__file__).parents[3] / "docs" / "examples" / "smoothing"
    run = grade("--course", course, "export", "notebooks", "nbs")
    assert (run.code, run.out) == (2, "")
    assert "is not installed" in run.err
