"""A learner's server as a Hub starts it, beside a small Hub of the tests, and a browser that opens it."""

import http.client
import json
import os
import re
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

from tests.conftest import ROOT
from tests.hosting.conftest import free_port

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
        threading.Thread(target=self.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


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

    def __init__(self, folder: Path, **variables: str) -> None:
        self.hub, self.port, self.folder = FakeHub(), free_port(), folder
        hub = f"http://127.0.0.1:{self.hub.server_port}/hub/api"
        own = {
            "SERVICE_URL": f"http://127.0.0.1:{self.port}{PREFIX}", "SERVICE_PREFIX": PREFIX, "BASE_URL": "/",
            "API_URL": hub, "API_TOKEN": "of-the-server", "CLIENT_ID": "jupyterhub-user-ada", "SERVER_NAME": "",
            "OAUTH_CALLBACK_URL": f"{PREFIX}oauth_callback", "ACTIVITY_URL": f"{hub}/users/ada/activity",
            "OAUTH_ACCESS_SCOPES": json.dumps([ACCESS, "access:servers!user=ada"]), "ACTIVITY_INTERVAL": "0.2",
        }  # fmt: skip
        env = os.environ | {f"JUPYTERHUB_{name}": value for name, value in own.items()}
        env |= {"PYTHONPATH": str(ROOT), "GRADE_STUDIO": str(folder / "secret"), **variables}
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
        self.hub.close()

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
