"""Which problems a change in a Git repository touches: the example course, committed, with one file changed at a
time."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from commandline.errors import UsageError
from grader.course import catalog, changes, selection
from tests.conftest import ROOT

pytestmark = pytest.mark.fast
FIRST, SECOND = "p01_moving_average", "p02_exponential_average"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository in whose folder `signals` the example course is. Its second problem imports a module that both may
    use."""
    folder = tmp_path / "signals"
    shutil.copytree(ROOT / "docs/examples/smoothing", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "problems" / "spread.py").write_text("SPREAD = 0.1\n")
    definition = folder / "problems" / SECOND / "problem.py"
    definition.write_text(f"{definition.read_text()}\n\ndef spread():\n    from problems.spread import SPREAD\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "The course")
    monkeypatch.setenv(selection.VARIABLE, str(folder))
    forget()
    yield folder
    forget()


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)


def forget() -> None:
    catalog.forget()
    changes._changed_files.cache_clear()


def touched(ref: str = "HEAD") -> list[str]:
    return [str(problem.name) for problem in changes.changed_since(catalog.problems(), ref)]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (f"problems/{FIRST}/page.md", [FIRST]),
        (f"problems/{FIRST}/stub.py", [FIRST]),
        (f"problems/{SECOND}/problem.py", [SECOND]),
        (f"solutions/{FIRST}.py", [FIRST]),
        (f"solutions/{SECOND}.toml", [SECOND]),
        ("tests/problems/styles/p01_row_by_row.py", [FIRST]),
        ("tests/problems/styles/p02_new.py", [SECOND]),
        ("problems/spread.py", [SECOND]),
        ("course.toml", []),
        ("../elsewhere.py", []),
    ],
)
def test_a_change_touches_the_problems_that_depend_on_the_file(course: Path, file: str, expected: list[str]):
    assert touched() == []
    path = course / file
    path.write_text(f"{path.read_text() if path.exists() else ''}\n")
    forget()
    assert touched() == expected


def test_a_change_touches_the_problems_with_a_style_that_imports_the_file(course: Path):
    style = course / f"tests/problems/styles/p02_by_{FIRST}.py"
    style.write_text(f"from {FIRST} import moving_average\n")
    git(course.parent, "add", "-A")
    git(course.parent, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "A style")
    solution = course / f"solutions/{FIRST}.py"
    solution.write_text(f"{solution.read_text()}\n")
    forget()
    assert touched() == [FIRST, SECOND]


def test_a_program_that_is_gone_touches_its_problem(course: Path):
    (course / "tests/problems/styles/p01_row_by_row.py").unlink()
    assert touched() == [FIRST]


def test_a_commit_that_is_none(course: Path):
    with pytest.raises(UsageError, match=r"Git cannot compare .* with 'nowhere'"):
        touched("nowhere")
    shutil.rmtree(course.parent / ".git")
    forget()
    with pytest.raises(UsageError, match="not a git repository"):
        touched()
