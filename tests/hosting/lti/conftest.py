"""A tool at a real address, a platform that it is registered with, and a browser."""

import asyncio
import html
import json
import re
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import uvicorn
from cryptography.hazmat.primitives import serialization
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount

from grader.problem import Problem
from hosting.lti.keys import Keys
from hosting.lti.launch import Launch
from hosting.lti.tool import KEY, PLATFORMS, Tool
from tests.hosting.lti import platform as platforms
from tests.hosting.lti.platform import LearningPlatform

PATH = "/services/hand-in/lti"
HUB = "http://127.0.0.1:1/hub"


@pytest.fixture(params=["canvas", "moodle"])
def platform(request: pytest.FixtureRequest) -> Iterator[LearningPlatform]:
    """A platform, once a Canvas and once a Moodle."""
    with platforms.running(request.param) as server:
        yield server


# For what does not depend on the platform.
ONE_PLATFORM = pytest.mark.parametrize("platform", ["canvas"], indirect=True)


@pytest.fixture
def canvas() -> Iterator[LearningPlatform]:
    with platforms.running("canvas") as server:
        yield server


@pytest.fixture
def moodle() -> Iterator[LearningPlatform]:
    with platforms.running("moodle") as server:
        yield server


def folder_for(folder: Path, *servers: LearningPlatform) -> Path:
    """Makes the folder of a tool that these platforms have registered. The key is made once for all tests."""
    folder.mkdir(exist_ok=True)
    (folder / PLATFORMS).write_text("\n".join(table(server) for server in servers))
    private = platforms.key("the tool's").private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / KEY).touch(0o600)
    (folder / KEY).write_bytes(private)
    for server in servers:
        server.tool_keys = {"keys": [_public(folder / KEY)]}
    return folder


_known = dict[str, Any]()


def _public(file: Path) -> dict[str, Any]:
    """The public part of the key, which is the same in all folders. To read a key takes OpenSSL a while."""
    if not _known:
        _known.update(Keys(file).public)
    return _known


def table(server: LearningPlatform) -> str:
    return f"""[{server.system}]
issuer = "{server.issuer}"
client_id = "{server.client_id}"
deployments = ["{server.deployment}"]
authorization = "{server.url}/authorize"
token = "{server.url}/token"
keys = "{server.url}/keys"
"""


async def opened(request: Request, launch: Launch) -> Response:
    raise AssertionError("this tool has no address")


def offline(folder: Path) -> Tool:
    """A tool without an address, which sends marks only."""
    return Tool(folder, "http://127.0.0.1:1/lti", opened, lambda problem: f"{HUB}/{problem.name}")


@contextmanager
def closing(tool: Tool) -> Iterator[Tool]:
    """The tool, whose database another one may open at the end."""
    try:
        yield tool
    finally:
        tool.close()


def run(tool: Tool, *steps: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
    """Runs steps of a tool one after the other; returns what they return."""

    async def every() -> list[Any]:
        return [await step() for step in steps]

    return asyncio.run(every())


@dataclass
class Site:
    """A tool at a real address, or behind a proxy that gives it another. `launches` are those that it accepted."""

    tool: Tool
    address: str
    launches: list[Launch]
    port: str


@contextmanager
def served(folder: Path, *servers: LearningPlatform, hub_login: str = "", public: str = "") -> Iterator[Site]:
    """A tool at a port of this machine, with the platforms that know its addresses.

    With `public`, its address is this one, of a proxy.
    """
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = f"http://127.0.0.1:{sock.getsockname()[1]}{PATH}"
        address = public or port
        launches = list[Launch]()

        async def opened(request: Request, launch: Launch) -> Response:
            tool.enrollments.remember(launch, launch.user)
            launches.append(launch)
            return JSONResponse({"user": launch.user})

        def link(problem: Problem) -> str:
            return f"{address}/launch?problem={problem.name}"

        tool = Tool(folder, address, opened, link, hub_login)

        @asynccontextmanager
        async def lifespan(_: Starlette) -> Any:
            async with tool.running():
                yield

        app = Starlette(routes=[Mount(PATH, routes=tool.routes)], lifespan=lifespan)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        for one in servers:
            one.login_address, one.redirect_addresses = f"{port}/login", [f"{address}/launch"]
        try:
            yield Site(tool, address, launches, port)
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture
def site(tmp_path: Path, platform: LearningPlatform) -> Iterator[Site]:
    with served(folder_for(tmp_path / "lti", platform), platform) as site:
        yield site


class Browser:
    """A browser with cookies, which sends the forms of platforms as their scripts do."""

    def __init__(self) -> None:
        self.http = httpx2.Client(trust_env=False, timeout=20)

    def open(self, address: str) -> httpx2.Response:
        """The page at the end of redirects and of forms that send themselves."""
        answer = self.http.get(address)
        while True:
            if answer.next_request:
                answer = self.http.send(answer.next_request)
            elif form := re.search(r'^<form action="([^"]*)" method="post">(.*)</form><script>', answer.text):
                answer = self.http.post(html.unescape(form[1]), data=fields(form[2]))
            else:
                return answer

    def login(self, address: str) -> dict[str, str]:
        """What the tool asks the platform, without going there."""
        answer = self.http.get(address)
        assert answer.status_code == 302, answer.text
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def fields(form: str) -> dict[str, str]:
    """The named values of a form's inputs."""
    found = re.findall(r'<input [^>]*name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}


@pytest.fixture
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.http.close()


def parsed(answer: httpx2.Response) -> Any:
    return json.loads(answer.text)
