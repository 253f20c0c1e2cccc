"""The service that learners hand in to, as a real server, with tokens of an invented Hub."""

import asyncio
import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response

from grader.batch import deadlines
from grader.batch.deadlines import Attempt, Settled
from grader.batch.records import Person, StoredAttempt
from grader.batch.store import Store
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.hand_in import Outbox, Service
from grader.problem import Problem
from hosting import app
from hosting.class_folder import ClassFolder
from hosting.lti.launch import Launch
from hosting.lti.tool import Tool
from hosting.marks import Claims
from hosting.sessions import User
from tests.conftest import ROOT
from tests.hosting.lti.conftest import folder_for
from tests.hosting.lti.platform import LearningPlatform, running

RIGHT = (ROOT / "solutions" / "p01_token_embedding.py").read_text()
PREFIX = "/services/hand-in/"
USERS = {f"token-of-{name}": User(name, name == "teacher") for name in ("ada", "bob", "teacher")}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def identify(token: str) -> User | None:
    return USERS.get(token)


class SignIn:
    """A Hub where a browser signs in as somebody, and comes back with the code `code-of-SOMEBODY`."""

    login_url = "http://hub.example/hub/api/oauth2/authorize?client_id=service-hand-in"

    async def token(self, code: str) -> str:
        return code.replace("code", "token")


class Hub:
    """The service while it runs. It can be stopped and started again, at the same port.

    With a platform, it sends marks there. `claims` are what the users have signed in with.
    """

    def __init__(self, folder: Path, platform: LearningPlatform | None = None) -> None:
        self.of, self.platform = ClassFolder(folder), platform
        self.options: tuple[str, ...] = ()
        self.claims = dict[str, Any]()
        self.port = free_port()

    def start(self) -> None:
        lti = self.lti(self.platform) if self.platform else None
        self.app = app.application(self.of, identify, SignIn(), PREFIX, self.options, lti)
        config = uvicorn.Config(self.app, port=self.port, log_level="critical", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def lti(self, platform: LearningPlatform) -> tuple[Tool, Claims]:
        """The tool of the class, and an invented Hub's answer to who has signed in."""

        async def opened(_: Request, launch: Launch) -> Response:
            raise AssertionError("no link leads to the tool")

        def link(problem: Problem) -> str:
            return f"http://hub.example/hub/user-redirect/gpt-kata/problems/{problem.label}"

        async def claims(user: str) -> Any:
            if isinstance(found := self.claims.get(user), Exception):
                raise found
            return found

        folder_for(self.of.lti, platform)
        return Tool(self.of.lti, f"http://127.0.0.1:{self.port}{PREFIX}lti", opened, link), claims

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self._server.serve()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def service(self, user: str) -> Service:
        return Service(f"http://127.0.0.1:{self.port}{PREFIX}", f"token-of-{user}")

    def attempts(self, user: str, number: str) -> list[dict[str, Any]]:
        return self.service(user).attempts(catalog.find(number))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """The service of a class, which grades nothing: each batch ends with a usage error."""
    hub = Hub(tmp_path / "class")
    hub.of.folder.mkdir()
    hub.options = ("--jobs", "none")  # a usage error, which ends a batch at once
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture
def workspace(tmp_path: Path) -> Callable[[str], Workspace]:
    """Returns the workspace of a user."""

    def of(user: str) -> Workspace:
        folder = tmp_path / "homes" / user / "attempts"
        folder.mkdir(parents=True, exist_ok=True)
        return Workspace(folder)

    return of


def hand_in(space: Workspace, to: Service, number: str, text: str) -> list[str]:
    """Writes a text into the workspace, hands it in, and returns what the service says."""
    problem, outbox = catalog.find(number), Outbox(space, to)
    space.file(problem).write_text(text)
    outbox.put(problem)
    return [sent.said for sent in outbox.send()]


def grade(hub: Hub, number: str, **scores: int) -> None:
    """Stores a result of what each learner handed in last, and publishes the marks, as a batch does."""
    problem, inbox, policy = catalog.find(number), hub.app.state.service.inbox, hub.of.rules().policy

    def settle(learner: str, attempts: Sequence[Attempt]) -> Mapping[str, Settled]:
        return deadlines.settle(attempts, (learner,), hub.of.rules(), best=policy.best)

    with closing(Store(hub.of.results)) as store:
        for learner, score in scores.items():
            one = inbox.of(learner, problem.name)[-1]
            text = (hub.of.hand_ins / one.folder / f"{problem.name}.py").read_text()
            attempt = StoredAttempt(
                learner, problem.name, "", "a key", f"{problem.name}.py", "FAIL", score, problem.points,
                sources={problem.name: text}, submitted=one.received.isoformat(),
            )  # fmt: skip
            store.put(settle, attempt.identified())
        store.remember_intake([Person(learner, (learner,)) for learner in scores], [])
        store.publish()


@pytest.fixture
def platform() -> Iterator[LearningPlatform]:
    """A Canvas where ada and bob are learners. Their ids are their names at the hub."""
    with running("canvas") as platform:
        for user, name in (("17", "ada"), ("18", "bob")):
            platform.users[name] = platform.users.pop(user)
            platform.users[name].id = name
        yield platform


def gradebook(platform: LearningPlatform) -> dict[str, float]:
    """The marks for problem 01 in the gradebook, by user."""
    marks = [column.marks for column in platform.columns if column.values["resourceId"] == catalog.find("01").name]
    return {user: entry.mark for own in marks for user, entry in own.items()}


def wait_until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def times(attempts: list[dict[str, Any]]) -> list[datetime]:
    return [datetime.fromisoformat(attempt["received"]) for attempt in attempts]


class Teacher:
    """A browser that keeps the cookies of the service, and sends the forms of its page."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.cookies = hub, dict[str, str]()

    def ask(
        self, method: str, path: str, body: str | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.hub.port, timeout=20)
        connection.request(method, PREFIX + path, body, headers)
        answer = connection.getresponse()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            assert f"; Path={PREFIX}" in line
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def get(self, path: str, **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return self.ask("GET", path, None, **{"Cookie": cookie, **headers})

    def sign_in(self, user: str) -> int:
        _, headers, _ = self.get("")
        (state,) = parse_qs(urlsplit(headers["Location"]).query)["state"]
        return self.get(f"oauth_callback?code=code-of-{user}&state={state}")[0]

    def secret(self) -> str:
        """The secret of the forms on the page."""
        match = re.search(r'name="form" value="([^"]+)"', self.get("")[2])
        assert match
        return match[1]

    def send(self, action: str, **values: str) -> tuple[int, str]:
        """Sends a form as a page of no origin does, without cookies. Returns the status, and the page after it."""
        body = urlencode({"form": self.secret(), **values})
        status, _, text = self.ask("POST", action, body, Origin="null")
        return status, self.get("")[2] if status == 303 else text


@pytest.fixture
def teacher(hub: Hub) -> Teacher:
    browser = Teacher(hub)
    assert browser.sign_in("teacher") == 302
    return browser


@contextmanager
def class_of_a_course(folder: Path, platform: LearningPlatform) -> Iterator[Hub]:
    """A class that runs, to which ada and bob came from their course on the platform."""
    hub = Hub(folder, platform)
    hub.of.folder.mkdir()
    hub.claims = {user: platform.claims(user, "n") for user in ("ada", "bob")}
    hub.start()
    yield hub
    hub.stop()
