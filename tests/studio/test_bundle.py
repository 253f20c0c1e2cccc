"""The studio in a learners' bundle, which has neither the references nor the harness."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from grader.course import catalog
from grader.handout import pack
from tests.grader.batch.conftest import GOOD, NAME
from tests.studio.conftest import Server
from tests.studio.test_learner import graded, write


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("learner")
    list(pack.pack(folder / "bundle", [catalog.find(NAME)]))
    server = Server(folder, root=folder / "bundle")
    yield server
    server.stop()


def test_a_learner_passes_and_there_are_no_runs(page: Page, studio: Server):
    expect(page.get_by_role("link", name="Next-token loss").first).to_be_visible()
    expect(page.get_by_role("link", name="Runs")).to_have_count(0)
    assert page.request.get(f"{studio.base}/runs").status == 404
    page.get_by_role("link", name="Next-token loss").first.click()
    write(page, GOOD)
    page.keyboard.press("Control+s")
    graded(page, "PASS")
