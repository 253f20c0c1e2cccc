"""A studio as a real process, and a real browser: Debian's chromium, driven by Playwright."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.conftest import ROOT, boot

SECONDS = 120
AXE = ROOT / "studio" / "editor" / "node_modules" / "axe-core" / "axe.min.js"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "STUDIO_TESTS"  # set where a missing browser or a missing npm package is a failure
expect.set_options(timeout=SECONDS * 1000)


class Server:
    """`grade web` in a folder of its own. `BROWSER` is the command that it opens a browser with, if there is one."""

    def __init__(self, folder: Path, *arguments: str, root: Path = ROOT, **env: str) -> None:
        self.installed, self.arguments, self.env = root, arguments, env
        self.folder, self.workspace = folder, folder / "attempts"
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-c",
            boot(self.installed),
            "web",
            *([] if "BROWSER" in self.env else ["--no-browser"]),
            "--port",
            str(self.port),
            *self.arguments,
        ]
        env = {**os.environ, "GRADE_STUDIO": str(self.folder / "secret"), **self.env}
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert "/?token=" in self.address, self.process.communicate()[1]
        self.origin, self.token = self.address.split("/?token=")
        self.port = int(self.origin.rpartition(":")[2])  # another one if a process took the port in between
        jar = CookieJar()
        urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)).open(self.address).close()
        (cookie,) = jar
        self.cookie, self.root = f"{cookie.name}={cookie.value}", cookie.path
        self.base = self.origin + self.root

    def stop(self, says: str = "") -> None:
        """Ctrl-C, after which nothing is left."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=SECONDS)
        assert (self.process.returncode, out, err) == (130, "", f"{says}Interrupted.\n")
        assert psutil.wait_procs(below, timeout=SECONDS)[1] == []

    def file(self, name: str) -> Path:
        return self.workspace / f"{name}.py"


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("studio"))
    yield server
    server.stop()


def missing(what: str) -> None:
    """Skips a test for want of something, or fails it in CI."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{what}, and {REQUIRED} says that it must be there")
    pytest.skip(what)


def axe(page: Page) -> list[str]:
    """What axe-core finds that is serious."""
    if not AXE.is_file():
        missing("axe-core is not installed: run `npm ci` in studio/editor")
    page.evaluate(AXE.read_text())
    result = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{item['id']}: {json.dumps([node['target'] for node in item['nodes']])}"
        for item in result["violations"]
        if item["impact"] in ("serious", "critical")
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        missing("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def enter(page: Page, studio: Server) -> None:
    """Opens the address that the studio has printed, as far as the first page."""
    page.goto(studio.address)
    page.wait_for_url(f"{studio.base}/")


def read_on(page: Page) -> None:
    """Goes on to the end of a problem's page, without an answer to its questions."""
    expect(page.locator("#hint")).to_be_attached()
    while (skip := page.get_by_role("button", name="Read on without an answer").locator("visible=true")).count():
        skip.first.click()


@pytest.fixture
def page(browser: Browser, studio: Server) -> Iterator[Page]:
    """A page of a new browser that has opened the studio's address. Errors in the page fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=False)
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda message: errors.append(f"{message.text} {message.location}") if message.type == "error" else None,
    )
    enter(page, studio)
    yield page
    with contextlib.suppress(Exception):
        context.close()
    assert [error for error in errors if "ERR_CONNECTION_REFUSED" not in error] == []
