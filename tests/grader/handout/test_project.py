"""The project file of a copy of the course."""

import tomllib
from email.message import Message
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.errors import CourseError
from grader.handout import project
from tests.conftest import ROOT

pytestmark = pytest.mark.fast

REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text())
QUOTED = 'tomli>=2; python_version < "3.11"'
PYPROJECT = f"""
[project]
name = "gpt-kata"
version = "2.0"
requires-python = ">=3.11"
dependencies = ['{QUOTED}', "hypothesis>=6"]
optional-dependencies.book = ["mkdocs-material>=9.6"]
optional-dependencies.dev = ["pytest>=8"]
scripts.grade = "grader.__main__:main"
entry-points.pytest11.gpt-kata = "grader.pytest_plugin"
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder as the root of the course."""
    monkeypatch.setattr(project, "ROOT", tmp_path)
    return tmp_path


def test_the_build_system_is_that_of_the_repository():
    assert REPOSITORY["build-system"] == project.BUILD_SYSTEM


def test_in_the_repository():
    table = tomllib.loads(project.project_file(["grader", "commandline"]))
    assert table["project"]["dependencies"] == REPOSITORY["project"]["dependencies"]
    assert table["project"]["scripts"] == {"grade": "grader.__main__:main"}
    extras = {name: of for name, of in REPOSITORY["project"]["optional-dependencies"].items() if name != "dev"}
    assert table["project"]["optional-dependencies"] == extras
    points = REPOSITORY["project"]["entry-points"]
    assert table["project"]["entry-points"] == {"pytest11": points["pytest11"]}
    with_studio = tomllib.loads(project.project_file(["grader", "studio"]))
    assert with_studio["project"]["entry-points"] == points
    assert table["tool"]["uv"]["build-backend"] == {"module-root": "", "module-name": ["commandline", "grader"]}
    assert "harness" in tomllib.loads(project.project_file(["grader", "harness"]))["project"]["scripts"]


def test_a_quotation_mark_in_a_marker_is_valid_toml(elsewhere: Path):
    (elsewhere / "pyproject.toml").write_text(PYPROJECT)
    dependencies = tomllib.loads(project.project_file(["grader"]))["project"]["dependencies"]
    assert dependencies == [QUOTED, "hypothesis>=6"]


def test_from_the_installed_metadata(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    headers = Message()
    headers["Requires-Python"] = ">=3.11"
    installed = SimpleNamespace(
        version="2.0",
        metadata=headers,
        requires=[
            QUOTED, "hypothesis>=6", "mkdocs-material>=9.6 ; extra == 'book'",
            "pytest>=8 ; sys_platform == 'linux' and extra == 'dev'", "ruff ; extra == 'dev'",
        ],
        entry_points=EntryPoints([
            EntryPoint("grade", "grader.__main__:main", "console_scripts"),
            EntryPoint("gpt-kata", "grader.pytest_plugin", "pytest11"),
        ]),
        read_text={"licenses/LICENSE": "Apache"}.get,
    )  # fmt: skip
    monkeypatch.setattr(project, "distribution", lambda name: installed)
    from_metadata = project.project_file(["grader"])
    assert project.license_text() == "Apache"
    (elsewhere / "pyproject.toml").write_text(PYPROJECT)
    assert from_metadata == project.project_file(["grader"])


def test_neither_a_repository_nor_an_installation(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(project, "distribution", missing)
    with pytest.raises(CourseError, match="gpt-kata is not installed; reinstall the course"):
        project.metadata()
