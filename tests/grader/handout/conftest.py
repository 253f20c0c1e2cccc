"""The course, installed without its repository."""

import shutil
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages folder as a non-editable installation leaves it: the packages, course.toml and the metadata."""
    folder = tmp_path_factory.mktemp("install") / "site-packages"
    for package in ("commandline", "grader", "harness", "problems", "solutions", "studio", "tasks"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "course.toml", folder)
    installed = distribution("gpt-kata")
    metadata = folder / f"gpt_kata-{installed.version}.dist-info"
    (metadata / "licenses").mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", metadata / "licenses")
    for name in ("METADATA", "entry_points.txt"):
        (metadata / name).write_text(installed.read_text(name) or "", encoding="utf-8")
    return folder
