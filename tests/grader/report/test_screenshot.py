"""The certificate as a picture, drawn by a real browser; and what is said where none can draw."""

import shutil
import struct
from pathlib import Path

import pytest

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.report import certificate, screenshot
from tests.conftest import Grade
from tests.studio.conftest import missing


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """A workspace with the first part passed."""
    space = Workspace(tmp_path / "attempts")
    for problem in catalog.problems()[:7]:
        space.add(problem)
        space.remember(problem, verdict="PASS", score=problem.points)
    return space


@pytest.fixture
def browser() -> None:
    if not any(map(shutil.which, screenshot.BROWSERS)):
        missing("chromium is not installed")


def size(picture: Path) -> tuple[int, int]:
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_the_picture_has_what_was_built_and_no_table(grade: Grade, space: Workspace, browser: None):
    run = grade("certificate", "--name", "Ada", "--png")
    assert (run.code, run.out) == (0, "new   attempts/certificate.html\nnew   attempts/certificate.png\n"), run.err
    picture = space.folder / "certificate.png"
    width, height = size(picture)
    assert width == screenshot.WIDTH * screenshot.SCALE
    assert certificate.is_certificate(picture)
    others = catalog.problems()[7:12]  # not a whole part
    for problem in others:
        space.add(problem)
        space.remember(problem, verdict="PASS", score=problem.points)
    assert grade("certificate", "--name", "Ada", "--png").code == 0, "a certificate is replaced"
    assert size(picture) == (width, height), "the table of problems is not in it"
    for problem in catalog.problems()[12:14]:
        space.add(problem)
        space.remember(problem, verdict="PASS", score=problem.points)
    assert grade("certificate", "--name", "Ada", "--png").code == 0
    assert height < size(picture)[1] < height + 100, "one more line of what was built"
    assert {path.name for path in space.folder.glob("certificate*")} == {"certificate.html", "certificate.png"}


def test_a_picture_that_is_no_certificate_stays(grade: Grade, space: Workspace, browser: None):
    (space.folder / "certificate.png").write_bytes(b"\x89PNG\r\n\x1a\nmine")
    run = grade("certificate", "--png")
    assert (run.code, run.out) == (2, "")
    assert "certificate.png exists and is not a certificate; name another file with --out." in run.err
    assert (space.folder / "certificate.png").read_bytes() == b"\x89PNG\r\n\x1a\nmine"


def test_without_a_browser_nothing_is_written(grade: Grade, space: Workspace, tmp_path: Path):
    run = grade("certificate", "--png", PATH=str(tmp_path))
    assert (run.code, run.out) == (2, "")
    assert run.err == (
        "grade: A picture needs Chromium, Chrome or Edge, and none of them was found. Install one, or leave out --png "
        "and take a screenshot of the page.\n"
    )
    assert not list(space.folder.glob("certificate*"))


def test_a_browser_that_fails_is_named(grade: Grade, space: Workspace, tmp_path: Path):
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    run = grade("certificate", "--png", PATH=f"{tmp_path}:/bin:/usr/bin")
    assert (run.code, run.out) == (2, "new   attempts/certificate.html\n")
    assert run.err == f"grade: {fake} has drawn no picture. Leave out --png.\n"
    assert {path.name for path in space.folder.glob("certificate*")} == {"certificate.html"}
