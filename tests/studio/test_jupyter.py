"""The studio inside of a real Jupyter server, as under JupyterHub: behind its login and below its base URL."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import NO_SHIFT, ROOT, misconception_name
from tests.studio.conftest import SECONDS

PREFIX = "/user/ada/gpt-kata/"
TOKEN = "a-token-of-jupyter"
WRONG = (ROOT / "solutions" / "p07_next_token_loss.py").read_text().replace("token_ids[1:]", "token_ids[:-1]")


@dataclass(frozen=True)
class Jupyter:
    port: int
    folder: Path
    process: int

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def file(self) -> Path:
        return self.folder / "attempts" / "p07_next_token_loss.py"

    def studios(self) -> list[psutil.Process]:
        return psutil.Process(self.process).children()

    def ask(self, path: str, method: str = "GET", **headers: str) -> int:
        """The status of the answer to a request."""
        return self.answer(path, method, **headers)[0]

    def answer(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        connection.request(method, path, "{}" if method != "GET" else None, headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        return status, text


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    """A Jupyter server, which finds the studio by the entry points of this repository."""
    folder = tmp_path_factory.mktemp("jupyter")
    about = folder / "packages" / "gpt_kata-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: gpt-kata\nVersion: 0\n")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line for group, names in groups.items() for line in (f"[{group}]", *(f"{n} = {v}" for n, v in names.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    own = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    paths = {
        "PYTHONPATH": os.pathsep.join([str(folder / "packages"), str(ROOT)]),
        "GRADE_STUDIO": str(folder / "secret"),
    }
    settings = {"port": port, "port_retries": 0, "base_url": "/user/ada/", "root_dir": folder, "allow_root": True}
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", f"--IdentityProvider.token={TOKEN}"]
    command += [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **own, **paths}, stdout=file, stderr=file)
    while "is running at" not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    yield Jupyter(port, folder, process.pid)
    below = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(SECONDS)
    assert psutil.wait_procs(below, timeout=SECONDS)[1] == [], "nothing is left"


def test_a_learner_behind_a_login(jupyter: Jupyter, browser: Browser):
    context = browser.new_context()
    page, asked, errors = context.new_page(), list[str](), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{jupyter.origin}{PREFIX}?token={TOKEN}")
    page.wait_for_url(f"{jupyter.origin}{PREFIX}*/")
    page.get_by_role("link", name="Next-token loss").first.click()
    page.wait_for_url("**/problems/07")
    page.locator("#editor .cm-content").fill(WRONG)
    page.keyboard.press("Control+s")
    expect(page.get_by_text(misconception_name("07", NO_SHIFT)).first).to_be_visible()
    assert jupyter.file.read_text() == WRONG
    for studio in jupyter.studios():
        studio.kill()
    expect(page.locator("#offline")).to_be_visible()
    expect(page.locator("#offline")).to_contain_text("Open it again from Jupyter's launcher")
    expect(page.locator("#offline")).to_be_hidden()  # Jupyter has started it again, and the page has the new secrets
    page.locator("#editor .cm-content").fill("mine = 1")
    page.keyboard.press("Control+s")
    expect(page.locator("#saved")).to_have_text("saved")
    assert jupyter.file.read_text() == "mine = 1"
    assert [url for url in asked if not url.startswith(f"{jupyter.origin}{PREFIX}")] == []
    assert errors == []
    context.close()


def test_a_link_to_a_problem_leads_to_it(jupyter: Jupyter, browser: Browser):
    """As from a course page, and as a bookmark of an earlier start."""
    with browser.new_context(extra_http_headers={"Authorization": f"token {TOKEN}"}) as context:
        for link in ("problems/07", "~of-an-earlier-start/problems/07"):
            page = context.new_page()
            page.goto(f"{jupyter.origin}{PREFIX}{link}")
            page.wait_for_url(f"{jupyter.origin}{PREFIX}~*/problems/07")
            expect(page.get_by_role("heading", level=1)).to_contain_text("Next-token loss")


def test_nobody_comes_in_by_another_way(jupyter: Jupyter):
    login = {"Authorization": f"token {TOKEN}"}
    assert jupyter.ask(PREFIX) == 302, "to the login of Jupyter"
    assert jupyter.ask(f"{PREFIX}problems/07/file", "PUT") == 403
    assert jupyter.ask(PREFIX, Accept="text/html", **login) == 200
    assert jupyter.ask(PREFIX, **login) == 403, "a script does not get the cookie"
    assert jupyter.ask(f"{PREFIX}renewal", "POST", Origin="http://evil.example", **login) == 403
    there = {"X-Forwarded-Host": "ada.example", "Host": "localhost", "Origin": "https://ada.example", **login}
    refused = "Only pages of the studio can change anything.\n"
    assert jupyter.answer(f"{PREFIX}x", "POST", **there) == (403, "Open the studio from Jupyter's launcher.\n")
    assert jupyter.answer(f"{PREFIX}x", "POST", **there, **{"Sec-Fetch-Site": "same-site"}) == (403, refused)
    assert jupyter.answer(f"{PREFIX}x", "POST", **(there | {"Origin": "https://evil.example"})) == (403, refused)
    (path,) = {
        connection.laddr
        for process in jupyter.studios()
        for connection in process.net_connections("unix")
        if "jupyter-server-proxy-" in connection.laddr
    }
    assert Path(path).parent.stat().st_mode & 0o077 == 0
    for headers in ("", "X-GPT-Kata-Proxy: wrong\r\n"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(path)
            sock.sendall(f"GET {PREFIX} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n{headers}\r\n".encode())
            assert sock.recv(100).startswith(b"HTTP/1.1 421 ")


def test_a_studio_that_cannot_start_says_why_and_tries_again(jupyter: Jupyter):
    login = {"Authorization": f"token {TOKEN}", "Accept": "text/html"}
    workspace = jupyter.file.parent
    workspace.rename(jupyter.folder / "elsewhere")
    workspace.write_text("")
    for studio in jupyter.studios():
        studio.kill()
    deadline = time.monotonic() + SECONDS
    while "attempts is a file" not in jupyter.answer(PREFIX, **login)[1]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    workspace.unlink()
    while jupyter.ask(PREFIX, **login) != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_the_launcher_shows():
    from studio import jupyter

    entry = jupyter.setup()["launcher_entry"]
    assert Path(entry["icon_path"]).is_file()
    assert json.dumps(entry)
