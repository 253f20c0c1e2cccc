"""The service that learners hand in to, as a real server, with tokens of an invented Hub."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.hand_in import Outbox, Service
from hosting import app
from hosting.class_folder import ClassFolder
from hosting.teachers import User
from tests.conftest import ROOT

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
    """The service while it runs. It can be stopped and started again, at the same port."""

    def __init__(self, folder: Path) -> None:
        self.of = ClassFolder(folder)
        self.options: tuple[str, ...] = ()
        self.port = free_port()

    def start(self) -> None:
        self.app = app.application(self.of, identify, SignIn(), PREFIX, self.options)
        config = uvicorn.Config(self.app, port=self.port, log_level="critical", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()))
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

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


def times(attempts: list[dict[str, Any]]) -> list[datetime]:
    return [datetime.fromisoformat(attempt["received"]) for attempt in attempts]
