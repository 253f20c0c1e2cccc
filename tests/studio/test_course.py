"""The studio on a course of a teacher's own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import ROOT
from tests.studio.conftest import Server
from tests.studio.test_learner import graded, write

EXAMPLE = ROOT / "docs" / "examples" / "smoothing"
REFERENCE = (EXAMPLE / "solutions" / "p01_moving_average.py").read_text()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("signals")
    shutil.copytree(EXAMPLE, folder / "course", ignore=shutil.ignore_patterns("__pycache__"))
    server = Server(folder, GRADE_COURSE=str(folder / "course"))
    yield server
    server.stop()


def test_its_map_its_pages_and_its_verdicts(page: Page, studio: Server):
    expect(page.get_by_role("heading", level=1)).to_have_text("Smoothing signals")
    expect(page.get_by_role("link", name="Exponential average")).to_be_visible()
    page.get_by_role("link", name="Moving average").first.click()
    expect(page.locator("figure.drawing svg")).to_be_visible()
    write(page, REFERENCE)
    page.keyboard.press("Control+s")
    graded(page, "PASS")
    assert studio.file("p01_moving_average").read_text() == REFERENCE


def test_a_private_course_gives_no_reference(page: Page, studio: Server):
    """The learner passes without the button, and asks for the reference by its address."""
    Path(studio.file("p01_moving_average")).write_text(REFERENCE)
    page.goto(f"{studio.base}/problems/01")
    graded(page, "PASS")
    headers = {"Origin": studio.origin, "Sec-Fetch-Site": "same-origin"}
    answer = page.request.post(f"{studio.base}/problems/01/reference", data={"text": REFERENCE}, headers=headers)
    assert answer.status == 422
    assert "is private" in answer.text()
    assert "inside @ x" not in answer.text()
