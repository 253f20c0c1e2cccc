"""A learner's server as the Hub starts it: who is let in, what the Hub hears of it, and what it costs while nobody
grades. `test_hub.py` has a real Hub."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from tests.conftest import ROOT
from tests.hosting.conftest import RIGHT, free_port

PREFIX = "/user/ada/"
STUDIO = f"{PREFIX}gpt-kata"
ACCESS = "access:servers!server=ada/"
SCOPES = {"ada": [ACCESS], "teacher": [ACCESS], "bob": ["access:servers!server=bob/"]}
PAGE = {"Accept": "text/html"}
SECONDS = 60.0


class FakeHub(ThreadingHTTPServer):
    """What a Hub answers to a server of ada's. `code-of-USER` is exchanged for `token-of-USER`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.reports: list[dict[str, Any]] = []
        self.exchanges: list[dict[str, str]] = []
        self.signed_out, self.is_down = set[str](), False
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Requests(BaseHTTPRequestHandler):
    server: FakeHub

    def do_GET(self) -> None:
        user = self.headers["Authorization"].removeprefix("token token-of-")
        known = self.path == "/hub/api/user" and user in SCOPES.keys() - self.server.signed_out
        self.answer(200 if known else 403, {"kind": "user", "name": user, "scopes": SCOPES.get(user)})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/hub/api/oauth2/token":
            self.server.exchanges.append({name: value[0] for name, value in parse_qs(body).items()})
            code = self.server.exchanges[-1]["code"]
            self.answer(200 if code.startswith("code-of-") else 400, {"access_token": code.replace("code", "token")})
        else:
            assert (self.path, self.headers["Authorization"]) == ("/hub/api/users/ada/activity", "token of-the-server")
            self.server.reports.append(json.loads(body))
            self.answer(200, None)

    def answer(self, status: int, value: Any) -> None:
        self.send_response(503 if self.server.is_down else status)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *words: object) -> None:
        pass


class Server:
    """`python -m studio.hub` in a home of its own, with the variables of JupyterHub."""

    def __init__(self, folder: Path) -> None:
        self.hub, self.port, self.folder = FakeHub(), free_port(), folder
        hub = f"http://127.0.0.1:{self.hub.server_port}/hub/api"
        own = {
            "SERVICE_URL": f"http://127.0.0.1:{self.port}{PREFIX}", "SERVICE_PREFIX": PREFIX, "BASE_URL": "/",
            "API_URL": hub, "API_TOKEN": "of-the-server", "CLIENT_ID": "jupyterhub-user-ada", "SERVER_NAME": "",
            "OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback", "ACTIVITY_URL": f"{hub}/users/ada/activity",
            "OAUTH_ACCESS_SCOPES": json.dumps([ACCESS, "access:servers!user=ada"]), "ACTIVITY_INTERVAL": "0.2",
        }  # fmt: skip
        env = os.environ | {f"JUPYTERHUB_{name}": value for name, value in own.items()}
        env |= {"PYTHONPATH": str(ROOT), "GRADE_STUDIO": str(folder / "secret"), "GPT_KATA_IDLE": "0.02"}
        command = [sys.executable, "-P", "-m", "studio.hub"]
        self.process = psutil.Popen(command, cwd=folder, env=env)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:  # as the Hub does, until there is an answer that is no error of the server
                assert self.ask(PREFIX).status == 403
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None
                time.sleep(0.05)
        raise AssertionError("it did not start")

    def stop(self) -> None:
        below = self.process.children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(SECONDS) == 0
        assert psutil.wait_procs(below, timeout=SECONDS)[1] == []
        self.hub.shutdown()
        self.hub.server_close()

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Connection": "close", **sent})
        answer = connection.getresponse()
        if not path.endswith("/events"):
            answer.text = answer.read().decode()
        return answer


class Browser:
    """Keeps the cookies of a server, whatever their paths, and whose browser it is at the Hub."""

    def __init__(self, server: Server, user: str) -> None:
        self.server, self.user, self.cookies = server, user, {"jupyterhub-session-id": f"session-of-{user}"}

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> http.client.HTTPResponse:
        headers |= {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        answer = self.server.ask(path, method, None if body is None else json.dumps(body), **headers)
        for line in answer.headers.get_all("Set-Cookie", []):
            name, value = re.fullmatch(r"([^=]+)=([^;]*).*", line).groups()
            self.cookies.pop(name) if "Max-Age=0" in line else self.cookies.update({name: value})
        return answer

    def begin(self, path: str = f"{STUDIO}/problems/01") -> str:
        """Opens a page without being signed in. Returns the state that the Hub sends back."""
        answer = self.ask(path, **PAGE)
        assert answer.status == 302
        place = urlsplit(answer.headers["Location"])
        query = {name: value[0] for name, value in parse_qs(place.query).items()}
        assert place.path == "/hub/api/oauth2/authorize"
        assert query["redirect_uri"] == f"{PREFIX}oauth_callback"
        assert (query["client_id"], query["response_type"]) == ("jupyterhub-user-ada", "code")
        return query["state"]

    def come_back(self, state: str, code: str = "") -> http.client.HTTPResponse:
        return self.ask(f"{PREFIX}oauth_callback?code={code or f'code-of-{self.user}'}&state={state}", **PAGE)

    def sign_in(self, path: str = f"{STUDIO}/problems/01") -> str:
        """Opens a page, through the Hub."""
        answer = self.come_back(self.begin(path))
        assert (answer.status, answer.headers["Location"]) == (302, path), answer.text
        return self.open(path)

    def open(self, path: str) -> str:
        """Follows a link to a page, once signed in. Returns its address, with the part that is new at each start."""
        return re.search(r'url=([^"]+)"', self.ask(path, **PAGE).text)[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("home"))
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
