"""The commands of an author."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT, Grade


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of the course with one problem."""
    folder = tmp_path / "course"
    for package in ("commandline", "grader"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "problems" / "p04_layer_norm", folder / "problems" / "p04_layer_norm")
    (folder / "solutions").mkdir()
    (folder / "course.toml").write_text('title = "One problem"\n')
    for suffix in ("py", "toml"):
        shutil.copy(ROOT / "solutions" / f"p04_layer_norm.{suffix}", folder / "solutions")
    (folder / "tests" / "problems" / "styles").mkdir(parents=True)
    return folder


@pytest.mark.thorough
def test_a_new_problem_is_sound_but_for_its_todos(grade: Grade, course: Path):
    created = grade("new", "98_demo", "--title", "Demo", cwd=course, root=course)
    assert created.code == 0, created.err
    assert "new   problems/p98_demo/page.md\n" in created.out
    assert "Next: replace the TODOs in these files. `grade verify 98` checks the problem" in created.out

    verified = grade("verify", "98", "--seeds", 2, "--json", cwd=course, root=course)
    assert verified.code == 1
    (row,) = verified.json["problems"]
    assert (row["stub"], row["score"], row["points"], row["seeds"], row["page"]) == (True, 4, 4, 2, True)
    assert (row["ideas"], row["rejected"], row["named"]) == (5, 5, 5)
    assert [each for each in row["complaints"] if ": still to write: " not in each] == []
    page = (course / "problems" / "p98_demo" / "page.md").read_text().splitlines()
    line = page.index("## Why this matters") + 3
    assert f"page.md, line {line}: still to write: why this matters" in row["complaints"][0]

    graded = grade("problem", "98", "solutions/p98_demo.py", cwd=course, root=course)
    assert graded.code == 0, graded.out
    assert "PASS, 4 of 4 points" in graded.out

    patterns = ("problems/p98_demo/*.*", "solutions/p98_*", "tests/problems/styles/p98_*")
    for path in [path for pattern in patterns for path in course.glob(pattern)]:
        path.write_text(path.read_text().replace("TODO:", "Written:"))
    verified = grade("verify", "98", "--seeds", 2, cwd=course, root=course)
    assert verified.code == 0, verified.out
    assert "1 problem, all sound." in verified.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["04_other"], "Problem 04 already exists: problems/p04_layer_norm. Choose another number."),
        (["layer_norm"], "The slug layer_norm belongs to problem 04; choose another slug."),
        (["Demo"], "'Demo' is not a valid slug"),
        (["demo", "--title", 'A "demo"'], "is not a valid title"),
    ],
)
def test_a_problem_that_cannot_be_created(grade: Grade, course: Path, arguments: list[str], message: str):
    before = sorted(course.rglob("*.py"))
    run = grade("new", *arguments, cwd=course, root=course)
    assert run.code == 2
    assert message in run.err
    assert sorted(course.rglob("*.py")) == before
