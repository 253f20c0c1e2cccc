"""The layout of the harness: which package imports which, and the table of files in docs/harness.md."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

HARNESS = ROOT / "harness"
FILES = sorted(path for path in HARNESS.rglob("*.py") if path.name != "__init__.py")
MAY_IMPORT = {
    "data": set(),
    "model": set(),
    "training": {"model"},
    "pieces": {"data", "model", "training"},
    "run": {"data", "model", "training", "pieces"},
}


def imported(path: Path) -> set[str]:
    """The names of all modules that a file imports, including names imported from packages."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_those_below_them(package: str) -> None:
    for path in (HARNESS / package).glob("*.py"):
        packages = {name.split(".")[1] for name in imported(path) if name.startswith("harness.")}
        assert packages & set(MAY_IMPORT) <= MAY_IMPORT[package] | {package}, path


def test_the_harness_does_not_import_the_grader_and_data_does_not_import_jax() -> None:
    for path in FILES:
        roots = {name.partition(".")[0] for name in imported(path)}
        assert not roots & {"grader", "problems", "solutions"}, path
        assert path.parent.name != "data" or not roots & {"jax", "flax"}, path


def test_the_table_in_the_docs_lists_exactly_the_files() -> None:
    table = (ROOT / "docs" / "harness.md").read_text().split("\n## ")[0]
    listed = sorted(re.findall(r"`([\w/]+\.py)`", table))
    assert listed == sorted(path.relative_to(HARNESS).as_posix() for path in FILES)


def test_files_are_short() -> None:
    long = {path.name: len(path.read_text().splitlines()) for path in FILES if path.name != "story_templates.py"}
    assert {name: lines for name, lines in long.items() if lines > 400} == {}
