"""The page for teachers: who gets it, how a browser signs in for it, and what it shows."""

import http.client
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from grader.course.workspace import Workspace
from tests.hosting.conftest import PREFIX, Hub, hand_in

pytestmark = pytest.mark.fast
Spaces = Callable[[str], Workspace]


class Browser:
    """A browser that keeps the cookies of the service."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.cookies = hub, dict[str, str]()

    def get(self, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=20)
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        connection.request("GET", PREFIX + path, headers={"Cookie": cookie, **headers})
        answer = connection.getresponse()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            assert f"; Path={PREFIX}" in line
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def sign_in(self, user: str) -> int:
        _, headers, _ = self.get("")
        (state,) = parse_qs(urlsplit(headers["Location"]).query)["state"]
        return self.get(f"oauth_callback?code=code-of-{user}&state={state}")[0]


def test_a_teacher_sees_what_was_handed_in(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: 2099-01-01\ntimezone: Asia/Tokyo\n")
    hand_in(workspace("ada"), hub.service("ada"), "01", "x = 1")
    hand_in(workspace("bob"), hub.service("bob"), "02", "x = 1")
    browser = Browser(hub)
    assert browser.sign_in("teacher") == 302
    status, headers, text = browser.get("")
    assert (status, "2 attempts of 2 learners; 2 not graded yet." in text) == (200, True)
    assert "<td>ada</td><td>01</td><td>waits</td>" in text
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    hub.of.deadlines.write_text("due: soon\n")
    assert "soon is not a time" in browser.get("")[2]


def test_the_tables_and_no_secret(hub: Hub):
    hub.of.results.mkdir()
    for name in ("results.csv", "summary.html", "seed.txt", "results.sqlite"):
        (hub.of.results / name).write_text(name)
    (hub.of.results / "linked.csv").symlink_to(hub.of.results / "seed.txt")
    browser = Browser(hub)
    browser.sign_in("teacher")
    assert browser.get("files/results.csv")[::2] == (200, "results.csv")
    status, headers, _ = browser.get("files/summary.html")
    assert (status, headers["Content-Security-Policy"].split(";")[0]) == (200, "sandbox allow-scripts")
    for name in ("seed.txt", "results.sqlite", "linked.csv", "..%2f..%2fdeadlines.yml", "%2e%2e/seed.txt"):
        assert browser.get(f"files/{name}")[0] == 404


def test_a_learner_does_not_see_it(hub: Hub):
    browser = Browser(hub)
    browser.sign_in("ada")
    assert [browser.get(path)[0] for path in ("", "files/results.csv")] == [403, 403]
    assert Browser(hub).get("files/results.csv")[0] == 403
    assert Browser(hub).get("", Authorization="token token-of-teacher")[0] == 302, "a page is for browsers"
    forged = Browser(hub)
    forged.cookies["hand-in-session"] = "token-of-teacher"
    assert forged.get("")[0] == 302


def test_a_sign_in_that_did_not_begin_here_is_refused(hub: Hub):
    """Somebody's link with a code of their own signs nobody in as them."""
    browser = Browser(hub)
    assert browser.get("oauth_callback?code=code-of-teacher&state=")[0] == 403
    assert browser.get("oauth_callback?code=code-of-teacher&state=guessed")[0] == 403
    browser.get("")
    assert browser.get("oauth_callback?code=code-of-teacher&state=guessed")[0] == 403
    assert browser.get("")[0] == 302


@pytest.mark.parametrize(("scheme", "is_secure"), [("https", True), ("http", False)])
def test_the_cookies_are_secure_behind_tls(hub: Hub, scheme: str, is_secure: bool):
    _, headers, _ = Browser(hub).get("", **{"X-Forwarded-Proto": scheme})
    cookie = headers["Set-Cookie"]
    assert ("HttpOnly" in cookie, "SameSite=lax" in cookie, "Secure" in cookie) == (True, True, is_secure)
