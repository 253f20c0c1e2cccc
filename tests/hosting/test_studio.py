"""The button *Hand in* of the studio: what the service says, also when it was down; and no button without a hub."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.hosting.conftest import PREFIX, Hub
from tests.studio.conftest import Server, browser, page  # noqa: F401  fixtures
from tests.studio.test_guard import ask
from tests.studio.test_learner import write


@pytest.fixture
def studio(hub: Hub, tmp_path: Path) -> Iterator[Server]:
    address = f"http://127.0.0.1:{hub.port}{PREFIX}"
    server = Server(tmp_path, GPT_KATA_HAND_IN=address, JUPYTERHUB_API_TOKEN="token-of-ada")
    yield server
    server.stop()


def texts(hub: Hub) -> list[str]:
    return [path.read_text() for path in sorted(hub.of.hand_ins.glob("ada/p01_token_embedding/*/*.py"))]


def test_what_is_typed_is_handed_in_also_when_the_service_was_down(hub: Hub, studio: Server, page: Page):  # noqa: F811
    hub.of.deadlines.write_text("due: 2099-01-02 23:59\n")
    page.goto(f"{studio.base}/problems/01")
    said = page.locator("#handed-in p")
    expect(said).to_be_hidden()
    write(page, "first = 1")
    page.get_by_role("button", name="Hand in").click()
    expect(said).to_contain_text("Attempt 1 at problem 01, received ")
    expect(said).to_contain_text(", due 2099-01-02 23:59:00 (UTC).")
    hub.stop()
    write(page, "second = 1")
    page.get_by_role("button", name="Hand in").click()
    expect(said).to_have_text(
        "The service of your class does not answer. Your file is kept in your workspace, and an open studio sends it "
        "as soon as it can."
    )
    assert texts(hub) == ["first = 1"]
    hub.start()
    expect(said).to_contain_text("Attempt 2 at problem 01, received ")
    assert texts(hub) == ["first = 1", "second = 1"]
    page.get_by_text("All attempts").click()
    expect(page.locator("#handed-in li")).to_have_count(2)
    hub.of.deadlines.write_text("due: 2099-01-02 23:59\nhand_in: {attempts_a_day: 2}\n")
    page.get_by_role("button", name="Hand in").click()
    expect(said).to_have_text("You have handed in 2 attempts at problem 01 today; hand in again tomorrow.")


def test_without_a_hub_there_is_no_button(tmp_path: Path):
    server = Server(tmp_path)
    try:
        answer = ask(server, "/problems/01")
        assert (answer.status, b"Save and grade" in answer.body, b"Hand in" in answer.body) == (200, True, False)
        assert ask(server, "/problems/01/hand-in").status == 404
    finally:
        server.stop()
