"""What makes stored results invalid: all that decides a verdict, and nothing else."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course import catalog, imports
from grader.judge import semantics
from grader.judge.cache import versions
from tests.conftest import ROOT

OTHERS = [line for line in versions() if not line.startswith("hypothesis")]
IGNORED = shutil.ignore_patterns("__pycache__")


@pytest.fixture
def fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """The fingerprint of problem 07 by a copy of the grader in `tmp_path`."""
    for package in ("commandline", "grader"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=IGNORED)
    monkeypatch.setattr(semantics, "ROOT", tmp_path)

    def of() -> str:
        imports.read.cache_clear()
        return semantics.of(catalog.find("07"))

    yield of
    imports.read.cache_clear()


def test_only_what_decides_a_verdict_counts(fingerprint: Callable[[], str], tmp_path: Path, monkeypatch):
    before = fingerprint()
    compare, summary = tmp_path / "grader" / "wire" / "compare.py", tmp_path / "grader" / "batch" / "summary.py"
    summary.write_text("THRESHOLD = 1\n")
    compare.write_text('"""Another docstring."""\n\n# a comment\n' + compare.read_text().split('"""', 2)[2])
    monkeypatch.setattr(semantics, "versions", lambda: [*OTHERS, "hypothesis 99"])
    assert fingerprint() == before
    compare.write_text(compare.read_text() + "\nMORE = 1\n")
    changed = fingerprint()
    assert changed != before
    monkeypatch.setattr(semantics, "versions", lambda: [*OTHERS, "jax 99"])
    assert fingerprint() != changed


def test_problems_differ():
    assert semantics.of(catalog.find("07")) != semantics.of(catalog.find("08"))
