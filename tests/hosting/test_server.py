"""A learner's server as the Hub starts it: who is let in, what the Hub hears of it, and what it costs while nobody
grades. `test_hub.py` has a real Hub."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.hosting.conftest import RIGHT
from tests.hosting.learner_server import PAGE, PREFIX, SECONDS, STUDIO, Browser, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("home"), GPT_KATA_IDLE="0.02")
    yield server
    server.stop()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_learner_and_a_teacher_are_let_in(server: Server):
    for user in ("ada", "teacher"):
        browser = Browser(server, user)
        page = browser.sign_in(f"{STUDIO}/problems/01?page=whole")
        assert re.fullmatch(rf"{STUDIO}/~[^/]+/problems/01\?page=whole", page)
        assert "Save and grade" in browser.ask(page).text
        assert browser.ask(PREFIX, **PAGE).headers["Location"] == f"{STUDIO}/"
    assert server.hub.exchanges[0] == {
        "client_id": "jupyterhub-user-ada", "client_secret": "of-the-server", "grant_type": "authorization_code",
        "code": "code-of-ada", "redirect_uri": f"{PREFIX}oauth_callback",
    }  # fmt: skip


def test_cookies_are_for_this_server_alone(server: Server):
    browser = Browser(server, "ada")
    for scheme, is_secure in (("http", False), ("https,http", True)):
        begun = server.ask(STUDIO, **PAGE, X_Forwarded_Proto=scheme)
        state = parse_qs(urlsplit(begun.headers["Location"]).query)["state"][0]
        browser.cookies[f"gpt-kata-begun-{state}"] = STUDIO.replace("/", "%2F")
        back = browser.ask(f"{PREFIX}oauth_callback?code=code-of-ada&state={state}", X_Forwarded_Proto=scheme)
        for line in (begun.headers["Set-Cookie"], back.headers.get_all("Set-Cookie")[0]):
            words = {word.strip().lower() for word in line.split(";")}
            assert {"httponly", f"path={PREFIX}", "samesite=lax"} <= words
            assert ("secure" in words) is is_secure


def test_nobody_else_is_let_in(server: Server):
    refused = "The hub does not let you use this server.\n"
    bob = Browser(server, "bob")
    assert (bob.come_back(bob.begin()).status, "gpt-kata-token" in bob.cookies) == (403, False)
    bob.cookies["gpt-kata-token"] = "token-of-bob"
    assert bob.ask(f"{STUDIO}/", **PAGE).status == 302, "to the Hub"
    ada = Browser(server, "ada")
    state = ada.begin()
    assert ada.come_back(state, "code-of-bob").text == refused, "a code that somebody else has planted"
    assert ada.come_back(state, "forged").text == refused
    for token in ("token-of-ada", "of-the-server"):
        assert server.ask(f"{STUDIO}/", Authorization=f"token {token}").status == 403, "a page takes no tokens"
    for forged in ("", "of-the-server", "token-of-mallory"):
        answer = server.ask(f"{STUDIO}/", Cookie=f"gpt-kata-token={forged}", X_Gpt_Kata_Proxy=forged)
        assert (answer.status, answer.text) == (403, "Sign in at the hub: reload this page.\n")


def test_a_sign_in_ends_where_it_began(server: Server):
    said = "This sign-in did not begin here. Open the page again.\n"
    ada, other = Browser(server, "ada"), Browser(server, "ada")
    state = ada.begin()
    assert [other.come_back(each).text for each in (state, "", "forged")] == [said] * 3
    for path in ("//evil.example/", "https%3A%2F%2Fevil.example", "%2Fuser%2Fbob%2F"):
        other.cookies["gpt-kata-begun-forged"] = path
        assert other.come_back("forged").text == said
    assert ada.come_back(state).status == 302
    assert ada.come_back(state).text == said, "a state is used once"


def test_the_studio_still_asks_for_its_own_secrets(server: Server):
    ada = Browser(server, "ada")
    page = ada.sign_in()
    body, here = {"text": "x = 1", "base": ""}, f"http://127.0.0.1:{server.port}"
    assert ada.ask(f"{page}/grade/stop", "POST", body).status == 403, "without an origin"
    assert ada.ask(f"{page}/grade/stop", "POST", body, Origin="http://evil.example").status == 403
    assert ada.ask(f"{page}/grade/stop", "POST", body, Origin=here).status == 202
    del ada.cookies["studio"]
    assert ada.ask(f"{page}/file").status == 403


def test_signing_out_at_the_hub_ends_it_and_a_silent_hub_does_not(server: Server):
    ada = Browser(server, "teacher")
    page = ada.sign_in()
    server.hub.is_down = True
    try:
        assert ada.ask(f"{page}/file").status == 200
        ada.cookies["jupyterhub-session-id"] = "another"  # nothing is known about this one
        assert ada.ask(f"{page}/file").status == 503
    finally:
        server.hub.is_down = False
    server.hub.signed_out.add("teacher")
    try:
        assert ada.ask(f"{page}/file").status == 403
    finally:
        server.hub.signed_out.clear()


def test_the_hub_hears_when_the_server_is_used(server: Server):
    ada = Browser(server, "ada")
    page = ada.sign_in()
    time.sleep(0.5)
    before = len(server.hub.reports)
    time.sleep(0.5)
    assert len(server.hub.reports) == before, "nobody used it meanwhile"
    ada.ask(f"{page}/file")
    until(lambda: len(server.hub.reports) > before)
    report = server.hub.reports[-1]
    assert report == {"servers": {"": {"last_activity": report["last_activity"]}}, **report}


def test_it_has_no_other_processes_while_nobody_grades(server: Server):
    def processes() -> int:
        return len(server.process.children(recursive=True))

    ada = Browser(server, "ada")
    ada.ask(ada.sign_in(f"{STUDIO}/"))  # the map
    until(lambda: processes() == 0)
    page = ada.open(f"{STUDIO}/problems/01")
    ada.ask(page)
    until(lambda: processes() == 1)  # the fork server
    base = json.loads(ada.ask(f"{page}/file").text)["digest"]
    events = server.ask(f"{page}/events", Cookie="; ".join(f"{name}={value}" for name, value in ada.cookies.items()))
    saved = ada.ask(f"{page}/file", "PUT", {"text": RIGHT, "base": base}, Origin=f"http://127.0.0.1:{server.port}")
    assert saved.status == 200
    line = next(
        line for line in events if line.startswith(b"data:") and b'"verdict": "PASS"' in line and b"html" in line
    )
    assert json.loads(line.removeprefix(b"data:"))["verdict"] == "PASS"
    events.close()
    until(lambda: processes() == 0)


def test_an_error_at_the_start_is_told_to_its_user_alone(tmp_path: Path):
    server = Server(tmp_path, GPT_KATA_IDLE="soon")
    assert server.ask(f"{STUDIO}/").status == 403
    ada = Browser(server, "ada")
    ada.come_back(ada.begin())
    answer = ada.ask(f"{STUDIO}/", **PAGE)
    assert (answer.status, answer.text) == (
        500,
        "GPT_KATA_IDLE=soon is not a number of minutes; ask who runs the hub.\n",
    )
    assert server.process.wait(SECONDS) == 2, "the Hub starts it again"
    server.hub.close()
