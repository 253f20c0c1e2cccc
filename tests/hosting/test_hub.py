"""A real hub with two users of the system, as root: from a link in a browser to a verdict, and what neither can do to
the other.

The users exist only for the hub's processes, which see another /etc/passwd.
"""

import http.client
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.conftest import ROOT
from tests.hosting.conftest import RIGHT, free_port, wait_until
from tests.studio.conftest import browser  # noqa: F401  a fixture

PROXY = "configurable-http-proxy"
PASSWORD = "a-password-of-tests"
TEACHERS_PASSWORD = "another-password-of-tests-for-teachers"
USERS = {"ada": 61001, "bob": 61002, "gpt-kata": 61003}
SECONDS = 120

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be other users"),
    pytest.mark.skipif(not importlib.util.find_spec("jupyterhub"), reason="needs the extra hosting"),
    pytest.mark.skipif(not shutil.which(PROXY), reason=f"needs {PROXY}: npm install --global {PROXY}"),
]

WITH_PASSWORDS = f"""
load_subconfig({str(ROOT / "hosting" / "jupyterhub_config.py")!r})
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = {PASSWORD!r}
c.SharedPasswordAuthenticator.admin_password = {TEACHERS_PASSWORD!r}
"""
PORTS = f"""
c.JupyterHub.hub_port = HUB_PORT
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:API_PORT"
c.Spawner.environment["PYTHONPATH"] = {str(ROOT)!r}
"""

# Makes the users, and what Python needs where other users may not look into the home of root.
START = """
mount --bind {folder}/passwd /etc/passwd
mount --bind {folder}/group /etc/group
if ! setpriv --reuid {uid} --regid {uid} --clear-groups sh -c '{python} -c ""'; then
  mkdir -p {folder}/python
  mount --bind {base} {folder}/python
  mount -t tmpfs -o mode=755 tmpfs /root
  mkdir -p {base}
  mount --bind {folder}/python {base}
fi
cd {folder}
exec {python} -P -m jupyterhub -f {folder}/config.py
"""


class Hub:
    """The hub while it runs, with the homes of its users in a folder that everybody may enter."""

    def __init__(self, folder: Path, config: str = WITH_PASSWORDS) -> None:
        self.folder, self.port = folder, free_port()
        accounts = [Path("/etc/passwd").read_text(), Path("/etc/group").read_text()]
        for name, uid in USERS.items():
            home = folder / "homes" / name
            home.mkdir(parents=True)
            os.chown(home, uid, uid)
            home.chmod(0o700)
            # Before the accounts of the machine, which may have an ada of its own: the first line counts.
            accounts[0] = f"{name}:x:{uid}:{uid}::{home}:/bin/sh\n{accounts[0]}"
            accounts[1] = f"{name}:x:{uid}:\n{accounts[1]}"
        for file, text in zip(("passwd", "group"), accounts, strict=True):
            (folder / file).write_text(text)
        config = (config + PORTS).replace("HUB_PORT", str(free_port())).replace("API_PORT", str(free_port()))
        (folder / "config.py").write_text(config)
        base = Path(sys.base_prefix)
        start = START.format(folder=folder, uid=USERS["ada"], python=sys.executable, base=base)
        (folder / "start").write_text(f"set -e\n{start}")
        for path in folder.iterdir():
            path.chmod(0o755)
        self.service_port = free_port()

    @property
    def hub_folder(self) -> Path:
        return self.folder / "hub"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
            "HUB_WAY": "users", "HUB_FOLDER": str(self.hub_folder), "HUB_ADDRESS": self.origin,
            "HUB_SERVICE_PORT": str(self.service_port), "LANG": "C.UTF-8", "CONFIGPROXY_AUTH_TOKEN": "of-tests",
        }  # fmt: skip
        log = self.folder / "log"
        with log.open("w") as file:
            command = ["unshare", "--mount", "sh", str(self.folder / "start")]
            self.process = subprocess.Popen(command, env=env, stdout=file, stderr=file)
        deadline = time.monotonic() + SECONDS
        while "JupyterHub is now running" not in log.read_text():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(SECONDS)

    def kill(self) -> None:
        """Kills the hub alone, as the kernel does when memory is short. Its services end with it."""
        services = [one for one in psutil.Process(self.process.pid).children() if PROXY not in " ".join(one.cmdline())]
        assert len(services) == 2
        self.process.kill()
        self.process.wait()
        assert psutil.wait_procs(services, timeout=SECONDS)[1] == []

    def ask(self, path: str, token: str = "", method: str = "GET", body: object = None) -> tuple[int, Any]:
        """The status of an answer, and its JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = {"Authorization": f"token {token}"} if token else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text


@contextmanager
def running(config: str = WITH_PASSWORDS, prepare: Callable[[Hub], None] = lambda hub: None) -> Iterator[Hub]:
    """A hub in a folder of its own, for which something is prepared first."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        hub = Hub(Path(name), config)
        try:
            prepare(hub)
            hub.start()
            yield hub
        finally:
            hub.stop()
            for process in psutil.process_iter(["uids"]):  # the servers, which survive the hub
                if process.info["uids"].real in USERS.values():
                    process.kill()


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with running() as hub:
        yield hub


@pytest.fixture
def contexts(browser: Browser) -> Iterator[list[BrowserContext]]:  # noqa: F811
    """A browser for each of the two."""
    found = [browser.new_context(), browser.new_context()]
    yield found
    for context in found:
        context.close()


def sign_in(hub: Hub, page: Page, user: str) -> None:
    """Follows the link to a problem that a course page has, through sign-in and spawn."""
    page.goto(f"{hub.origin}/hub/user-redirect/gpt-kata/problems/01")
    fill_in(page, user, PASSWORD)
    page.wait_for_url(f"{hub.origin}/user/{user}/gpt-kata/~*/problems/01", timeout=SECONDS * 1000)


def fill_in(page: Page, user: str, password: str) -> None:
    page.locator("#username_input").fill(user)
    page.locator("#password_input").fill(password)
    page.locator("#login_submit").click()


def server_of(user: str) -> psutil.Process:
    """The single-user server of a user."""
    found = [
        one for one in psutil.process_iter(["uids", "cmdline"])
        if one.info["uids"].real == USERS[user] and "studio.hub" in one.info["cmdline"]
    ]  # fmt: skip
    return found[0]


def as_user(user: str, *command: str) -> subprocess.CompletedProcess[str]:
    drop = ["setpriv", "--reuid", str(USERS[user]), "--regid", str(USERS[user]), "--clear-groups"]
    return subprocess.run([*drop, *command], capture_output=True, text=True, check=False)


def test_two_learners_from_a_link_to_a_verdict(hub: Hub, browser: Browser, contexts: list[BrowserContext]):  # noqa: F811
    pages = [context.new_page() for context in contexts]
    texts = [RIGHT, f"{RIGHT}\nmine = 2\n"]
    for page, user, text in zip(pages, ("ada", "bob"), texts, strict=True):
        sign_in(hub, page, user)
        page.locator("#editor .cm-content").fill(text)
        page.get_by_role("button", name="Hand in").click()
        expect(page.locator("#handed-in p")).to_contain_text("Attempt 1 at problem 01, received ")
    for page in pages:
        expect(page.locator("#handed-in p")).to_contain_text("PASS, 6 of 6 points. This attempt counts.")
    pattern = "*/p01_token_embedding/*/p01_token_embedding.py"
    handed_in = {path.parts[-4]: path.read_text() for path in hub.hub_folder.glob(f"class/hand-ins/{pattern}")}
    assert handed_in == dict(zip(("ada", "bob"), texts, strict=True))
    # The teacher signs in for the page of the service, which learners do not see.
    learner = contexts[0].new_page()
    refused = learner.goto(f"{hub.origin}/services/hand-in/")
    assert refused is not None
    assert refused.status == 403
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{hub.origin}/services/hand-in/")
        fill_in(page, "teacher", TEACHERS_PASSWORD)
        expect(page.get_by_text("2 attempts of 2 learners; 0 not graded yet.")).to_be_visible()
        page.get_by_role("link", name="summary.html").click()
        expect(page.get_by_text("ada").first).to_be_visible()
        page.goto(f"{hub.origin}/user/ada/gpt-kata/problems/01")  # a teacher may, once the Hub has asked
        page.get_by_role("button", name="Authorize").click()
        page.wait_for_url(f"{hub.origin}/user/ada/gpt-kata/~*/problems/01", timeout=SECONDS * 1000)
    # A restart of the hub costs nobody an edit.
    servers = [server_of(user).pid for user in ("ada", "bob")]
    hub.stop()
    pages[0].locator("#editor .cm-content").fill("typed = 'while the hub was away'")
    hub.start()
    expect(pages[0].locator("#offline")).to_be_hidden()
    pages[0].get_by_role("button", name="Save and grade").click()
    expect(pages[0].locator("#saved")).to_have_text("saved")
    assert [server_of(user).pid for user in ("ada", "bob")] == servers
    assert (hub.folder / "homes/ada/attempts/p01_token_embedding.py").read_text() == "typed = 'while the hub was away'"
    # No cookie of a browser leads to the other one's server.
    cookies = {cookie["name"]: cookie["path"] for cookie in contexts[0].cookies() if "/user/" in cookie["path"]}
    assert cookies
    assert {path.split("/")[2] for path in cookies.values()} == {"ada"}
    answer = pages[0].goto(f"{hub.origin}/user/bob/gpt-kata/")
    assert answer is not None
    assert answer.status in (403, 404)


def test_files_of_the_class_and_of_others_cannot_be_read(hub: Hub):
    """By the user that runs a learner's server, whatever code that learner writes."""
    class_folder, bob = hub.hub_folder / "class", server_of("bob")
    private = [
        class_folder / "results" / "seed.txt", class_folder / "results" / "results.sqlite", class_folder / "hand-ins",
        hub.hub_folder / "jupyterhub.sqlite", hub.hub_folder / "cookie_secret",
        hub.folder / "homes" / "bob" / "attempts" / "p01_token_embedding.py", Path(f"/proc/{bob.pid}/environ"),
    ]  # fmt: skip
    for path in private:
        read = as_user("ada", "cat", str(path))
        assert read.returncode == 1, path
        assert "Permission denied" in read.stderr
    forged = class_folder / "hand-ins" / "bob" / "forged"
    assert as_user("ada", "mkdir", "-p", str(forged)).returncode == 1
    assert as_user("ada", "kill", str(bob.pid)).returncode == 1
    # Every program of the machine can reach the port of bob's server.
    place = urlsplit(bob.environ()["JUPYTERHUB_SERVICE_URL"])
    adas = server_of("ada").environ()["JUPYTERHUB_API_TOKEN"]
    for headers in ({}, {"Cookie": f"gpt-kata-token={adas}"}, {"Authorization": f"token {adas}"}):
        connection = http.client.HTTPConnection("127.0.0.1", place.port or 0, timeout=SECONDS)
        connection.request("GET", f"{place.path}gpt-kata/", headers=headers)
        assert connection.getresponse().status == 403
        connection.close()


def test_a_token_is_only_its_learners(hub: Hub):
    token = server_of("ada").environ()["JUPYTERHUB_API_TOKEN"]
    assert hub.ask("/hub/api/user", token)[1]["name"] == "ada"
    for path in ("/user/bob/api/contents", "/user/bob/gpt-kata/", "/hub/api/users", "/hub/api/users/bob"):
        assert hub.ask(path, token)[0] in (403, 404), path
    assert hub.ask("/hub/api/users/ada/tokens", token, "POST", {})[0] == 403, "it makes no other tokens"
    attempt = {"problem": "p01_token_embedding", "files": {"p01_token_embedding": "x = 1"}, "user": "bob"}
    bobs = hub.ask("/services/hand-in/attempts?problem=p01_token_embedding&user=bob", token)
    assert [one["id"] for one in bobs[1]] == [path.name[-32:] for path in hub.hub_folder.glob("class/hand-ins/ada/*/*")]
    status, receipt = hub.ask(f"/services/hand-in/attempts/{'a' * 32}", token, "PUT", attempt)
    assert (status, receipt["attempt"]) == (200, 2)
    (path,) = hub.hub_folder.glob(f"class/hand-ins/*/*/*{'a' * 32}")
    assert path.parts[-3] == "ada"
    for wrong in ("", "of-tests", token[::-1]):
        assert hub.ask(f"/services/hand-in/attempts/{'b' * 32}", wrong, "PUT", attempt)[0] == 403


def test_a_killed_hub_costs_nobody_an_edit(hub: Hub, contexts: list[BrowserContext]):
    page = contexts[0].new_page()
    sign_in(hub, page, "ada")
    editor = page.locator("#editor .cm-content")
    editor.fill("typed = 'and saved'")
    page.get_by_role("button", name="Save and grade").click()
    expect(page.locator("#saved")).to_have_text("saved")
    server = server_of("ada").pid
    editor.fill("typed = 'when the hub was killed'")
    hub.kill()
    editor.fill("typed = 'while there was no hub'")
    hub.start()
    assert server_of("ada").pid == server
    page.reload()
    expect(editor).to_have_text("typed = 'while there was no hub'")
    page.get_by_role("button", name="Hand in").click()
    received = hub.hub_folder / "class" / "hand-ins" / "ada"  # by the service of the new hub
    wait_until(lambda: any("no hub" in path.read_text() for path in received.glob("*/*/*.py")), SECONDS)
    home = hub.folder / "homes/ada/attempts/p01_token_embedding.py"
    assert home.read_text() == "typed = 'while there was no hub'"
    # The same with the learner's server: it starts again.
    editor.fill("typed = 'and never saved'")
    expect(page.locator("#saved")).to_have_text("unsaved")
    wait_until(lambda: "never saved" in page.evaluate("Object.values(localStorage).join()"))
    hub.kill()
    server_of("ada").kill()
    hub.start()
    page.goto(f"{hub.origin}/hub/user-redirect/gpt-kata/problems/01")
    page.wait_for_url(f"{hub.origin}/user/ada/gpt-kata/~*/problems/01", timeout=SECONDS * 1000)
    expect(editor).to_have_text("typed = 'and never saved'")
    assert server_of("ada").pid != server
