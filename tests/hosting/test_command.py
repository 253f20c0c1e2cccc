"""`grade hand-in`, and the start of the service: it asks the Hub whose token it is."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import httpx2
import pytest
from click.testing import Result
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from commandline.errors import UsageError
from grader import hand_in as client
from grader.cli import learner
from grader.course import catalog
from grader.course.workspace import Workspace
from hosting.marks import Claims
from tests.conftest import cli_runner
from tests.hosting.conftest import Hub
from tests.hosting.lti.conftest import folder_for
from tests.hosting.lti.platform import running

pytestmark = pytest.mark.fast
Spaces = Callable[[str], Workspace]


@pytest.fixture
def grade(hub: Hub, workspace: Spaces, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `grade` with arguments in the workspace of ada, on her server of the hub."""
    monkeypatch.setenv(client.ADDRESS, hub.service("ada").address)
    monkeypatch.setenv(client.TOKEN, "token-of-ada")
    space = workspace("ada")
    space.file(catalog.find("01")).write_text("x = 1\n")
    return lambda *args: cli_runner().invoke(learner.main, ["--workspace", str(space.folder), *args])


def said(done: Result) -> str:
    """An error, on one line."""
    return " ".join(done.stderr.split())


def test_a_file_is_handed_in(hub: Hub, grade: Callable[..., Result]):
    done = grade("hand-in", "01")
    assert (done.exit_code, done.output[:34]) == (0, "Attempt 1 at problem 01, received ")
    assert len(hub.attempts("ada", "01")) == 1


def test_what_had_to_wait_is_sent_before_it(hub: Hub, grade: Callable[..., Result]):
    hub.stop()
    done = grade("hand-in", "01")
    assert (done.exit_code, said(done)) == (1, f"grade: The service of your class does not answer. {client.KEPT}")
    hub.start()
    done = grade("hand-in", "01")
    assert [line[:23] for line in done.output.splitlines() if line.startswith("Attempt")] == [
        "Attempt 1 at problem 01",
        "Attempt 2 at problem 01",
    ]


def test_what_is_refused_is_an_error(hub: Hub, grade: Callable[..., Result]):
    hub.of.deadlines.write_text("due: 2099-01-01\nhand_in: {attempts_a_day: 0}\n")
    done = grade("hand-in", "01")
    assert (done.exit_code, said(done)[:15]) == (1, "You have handed")


def test_without_a_hub_it_says_so(grade: Callable[..., Result], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(client.ADDRESS)
    done = grade("hand-in", "01")
    assert (done.exit_code, said(done)[:33]) == (2, "grade: This is no server of a hub")


def test_an_address_that_is_none_is_named(grade: Callable[..., Result], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(client.ADDRESS, "ftp://hub.example")
    done = grade("hand-in", "01")
    assert (done.exit_code, "GPT_KATA_HAND_IN=ftp://hub.example is not the address" in said(done)) == (2, True)


def test_a_token_that_is_over_loses_nothing(hub: Hub, grade: Callable[..., Result], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(client.TOKEN, "of-an-earlier-server")
    done = grade("hand-in", "01")
    assert said(done) == f"grade: Hand in from your own server on the hub. {client.KEPT}"
    monkeypatch.setenv(client.TOKEN, "token-of-ada")
    assert grade("hand-in", "01").output.count("Attempt") == 2


USERS = {
    "of-ada": {"kind": "user", "name": "ada", "scopes": ["access:services!service=hand-in"]},
    "of-teacher": {"kind": "user", "name": "teacher", "admin": True, "scopes": ["access:services"]},
    "of-a-page": {"kind": "user", "name": "ada", "scopes": ["access:servers!server=ada/"]},
    "of-another-service": {"kind": "service", "name": "bob", "scopes": ["access:services"]},
}


SIGNED_IN: dict[str, dict[str, object]] = {
    "ada": {"name": "ada", "auth_state": {"sub": "ada"}},
    "b/b": {"name": "b/b", "auth_state": None},
    "hidden": {"name": "hidden"},
}


@pytest.fixture
def hub_api() -> Iterator[str]:
    """The address of a server that answers as the API of the Hub does."""

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            user = USERS.get(self.headers["Authorization"].removeprefix("token "))
            if self.headers["Authorization"] == "token of-trouble":
                self.send_error(503)
                return
            if name := self.path.partition("/users/")[2]:
                user = SIGNED_IN.get(unquote(name))
                self.send_response(200 if user else 404)
            else:
                self.send_response(200 if user else 403)
            self.end_headers()
            self.wfile.write(json.dumps(user or {}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hub/api"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_hub_says_whose_token_it_is(hub_api: str):
    auth = pytest.importorskip("jupyterhub.services.auth")
    from hosting.__main__ import identify

    hub = auth.HubOAuth(api_url=hub_api, api_token="of-the-service", access_scopes={"access:services!service=hand-in"})

    async def ask() -> list[object]:
        user_of = identify(hub)
        found = [await user_of(token) for token in (*USERS, "of-nobody")]
        with pytest.raises(HTTPException, match=r"The Hub does not answer\."):
            await user_of("of-trouble")
        return found

    assert asyncio.run(ask()) == [("ada", False), ("teacher", True), None, None, None]


def test_the_hub_says_who_signed_in_from_which_course(hub_api: str):
    auth = pytest.importorskip("jupyterhub.services.auth")
    from hosting.__main__ import claims

    def of(token: str) -> Claims:
        return claims(auth.HubOAuth(api_url=hub_api, api_token=token))

    async def ask() -> list[object]:
        found = [await of("of-the-service")(name) for name in ("ada", "b/b", "nobody")]
        with pytest.raises(HTTPException, match="Give the service the scopes admin:auth_state and read:users"):
            await of("of-the-service")("hidden")
        with pytest.raises(HTTPException, match="The Hub does not tell this service"):
            await of("of-trouble")("ada")
        return found

    assert asyncio.run(ask()) == [{"sub": "ada"}, None, None]


def test_the_tool_has_the_address_that_platforms_reach(hub: Hub, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("jupyterhub.services.auth")
    from hosting.__main__ import tool

    with running("canvas") as platform:
        folder_for(hub.of.lti, platform)
        monkeypatch.setenv("JUPYTERHUB_PUBLIC_HUB_URL", "")
        with pytest.raises(
            UsageError, match=r"platforms.toml needs the address that platforms reach: set c.JupyterHub"
        ):
            tool(hub.of, "/services/hand-in/")
        monkeypatch.setenv("JUPYTERHUB_PUBLIC_HUB_URL", "https://hub.example.edu/hub/")
        with closing(tool(hub.of, "/services/hand-in/")) as made:

            async def leads_to(link: str) -> str:
                query = platform.login("17", link).partition("?")[2]
                app = httpx2.ASGITransport(app=Starlette(routes=made.routes))
                async with httpx2.AsyncClient(transport=app, base_url="http://testserver") as browser:
                    return str((await browser.get(f"/login?{query}")).headers["location"])

            link = "https://hub.example.edu/hub/user-redirect/gpt-kata/problems/01"
            assert asyncio.run(leads_to(link)).startswith("https://hub.example.edu/hub/lti13/oauth_login?")
            own = "https://hub.example.edu/services/hand-in/lti/launch"
            assert asyncio.run(leads_to(own)).startswith(f"{platform.url}/authorize?")
