"""The files of a new problem."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog, page, scaffold, selection
from grader.course.course import STYLES
from tests.conftest import ROOT

pytestmark = pytest.mark.fast


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A course with problem 01 and nothing else, selected."""
    for folder in ("problems", "solutions", STYLES):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "course.toml").write_text('title = "Small"\n')
    monkeypatch.setenv(selection.VARIABLE, str(tmp_path))
    add(tmp_path, "p01_first")
    yield tmp_path
    catalog.forget()


def add(course: Path, name: str) -> None:
    (course / "problems" / name).mkdir()
    (course / "problems" / name / "problem.py").touch()
    catalog.forget()


def test_eight_files(course: Path):
    name, paths = scaffold.create("98_demo", "Demo")
    assert (name, name.number) == ("p98_demo", 98)
    assert sorted(path.relative_to(course).as_posix() for path in paths) == [
        "problems/p98_demo/page.md",
        "problems/p98_demo/play.py",
        "problems/p98_demo/problem.py",
        "problems/p98_demo/stub.py",
        "solutions/p98_demo.py",
        "solutions/p98_demo.toml",
        "tests/problems/styles/p98_demo_1.py",
        "tests/problems/styles/p98_demo_2.py",
    ]
    problem = catalog.load(name)
    assert problem.title == "Demo"
    assert list(page.sections(problem)) == list(page.SECTIONS)
    assert len(catalog.misconceptions(problem)) == 5


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("98_demo", "p98_demo"), ("p98_demo", "p98_demo"), ("8_demo", "p08_demo"), ("demo", "p02_demo"),
        ("to_3d", "p02_to_3d"),
    ],
)  # fmt: skip
def test_numbers(course: Path, word: str, name: str):
    assert scaffold.create(word)[0] == name


def test_the_next_free_number(course: Path):
    add(course, "p02_second")
    add(course, "p04_fourth")
    assert scaffold.create("demo")[0] == "p03_demo"
    assert scaffold.create("another_one")[0] == "p05_another_one"
    assert catalog.load("p05_another_one").title == "Another one"


@pytest.mark.parametrize(
    "word", ["", "Demo", "0_demo", "100_demo", "p100_demo", "98_", "98", "a b", "../x", "98_class", "é"]
)
def test_words_that_are_not_valid(course: Path, word: str):
    with pytest.raises(UsageError, match="is not a valid"):
        scaffold.create(word)


@pytest.mark.parametrize("title", ["", " ", 'a "title"', "a\ntitle", "a\\title"])
def test_titles_that_are_not_valid(course: Path, title: str):
    with pytest.raises(UsageError, match="is not a valid title"):
        scaffold.create("demo", title)


def test_a_title_that_is_too_long(course: Path):
    with pytest.raises(UsageError, match="45 characters; at most 44"):
        scaffold.create("demo", "x" * 45)


@pytest.mark.parametrize(
    "path",
    [
        "problems/p98_x/notes.md",
        "solutions/p98_demo.toml",
        "solutions/p98_x.py",
        "tests/problems/styles/p98_mine.py",
    ],
)
def test_nothing_is_overwritten(course: Path, path: str):
    (course / path).parent.mkdir(exist_ok=True)
    (course / path).write_text("mine")
    before = sorted(course.rglob("*"))
    with pytest.raises(UsageError, match=r"Problem 98 already exists: .*p98_"):
        scaffold.create("98_demo")
    assert sorted(course.rglob("*")) == before
    assert (course / path).read_text() == "mine"


def test_a_slug_that_is_taken(course: Path):
    with pytest.raises(UsageError, match="The slug first belongs to problem 01"):
        scaffold.create("first")


def test_all_numbers_are_taken(course: Path):
    for number in range(2, 100):
        add(course, f"p{number:02}_number_{number}")
    with pytest.raises(UsageError, match="All numbers from 1 to 99 are taken"):
        scaffold.create("demo")


def test_an_error_leaves_nothing(course: Path, monkeypatch: pytest.MonkeyPatch):
    before = sorted(course.rglob("*"))
    write = files.write

    def fail(path: Path, text: str) -> None:
        if path.suffix == ".toml":
            raise UsageError(f"{path} cannot be written: No space left on device.")
        write(path, text)

    monkeypatch.setattr(files, "write", fail)
    with pytest.raises(UsageError, match="No space left"):
        scaffold.create("demo")
    assert sorted(course.rglob("*")) == before


def test_an_installed_course_has_no_place_for_problems(course: Path):
    (course / STYLES).rmdir()
    with pytest.raises(UsageError, match="where the course has its tests, such as in a clone"):
        scaffold.create("demo")


def test_open_items_name_file_and_line(course: Path):
    name, paths = scaffold.create("98_demo", "Demo")
    problem = catalog.load(name)
    items = scaffold.open_items(problem)
    assert {item.split(",")[0] for item in items} == {path.name for path in paths}, "every file has something to write"
    for path in paths:
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("TODO:", "Written:"), encoding="utf-8")
    assert scaffold.open_items(problem) == []
    stub = course / "problems" / name / "stub.py"
    stub.write_text("# one\n# two\nx = 1  # TODO: the rest\n")
    assert scaffold.open_items(problem) == ["stub.py, line 3: still to write: the rest"]


def test_the_course_has_nothing_left_to_write():
    assert [item for problem in catalog.problems() for item in scaffold.open_items(problem)] == []


def test_the_files_are_clean(course: Path):
    scaffold.create("98_demo", "A demo with a title of forty-four characters")
    command = [sys.executable, "-m", "ruff"]
    settings = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), str(course / "problems" / "p98_demo"),
                *map(str, (course / "solutions", course / "tests"))]  # fmt: skip
    for arguments in (["check", *settings], ["format", "--check", *settings]):
        done = subprocess.run([*command, *arguments], cwd=course, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
