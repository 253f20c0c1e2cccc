"""A Canvas on this machine: the part of its REST API that `grade push canvas` uses, for one course."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

TOKEN = "7~a-secret-token"
COURSE = "4711"


class Canvas(ThreadingHTTPServer):
    """`marks` are by assignment, then user. `stored` counts how often each was written.

    Lists have two rows a page. With `stops_after` set, it answers no more once so many marks were written, and sets
    `stopped`. With `busy` set, so many requests are put off. `refuses` are users whose marks are dropped, `breaks`
    those whose marks make a whole request fail. With `moved_to` or `links_to` set, it redirects, or links the next
    page, to another server. `requests` counts all. `comments` are by assignment and user.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.token = TOKEN
        self.assignments: list[dict[str, Any]] = []
        self.marks: dict[int, dict[str, float | None]] = {}
        self.excused: set[str] = set()
        self.stored: dict[tuple[int, str], int] = {}
        self.jobs: dict[int, list[str]] = {}
        self.comments: dict[tuple[int, str], list[str]] = {}
        self.posts = 0
        self.stops_after: int | None = None
        self.stopped = threading.Event()
        self.busy = 0
        self.refuses: set[str] = set()
        self.breaks: set[str] = set()
        self.moved_to = self.links_to = ""
        self.requests = 0

    def add(self, name: str, points: float, users: list[str]) -> int:
        """Creates an assignment; returns its number."""
        number = 100 + len(self.assignments)
        self.assignments.append({"id": number, "name": name, "points_possible": points})
        self.marks[number] = dict.fromkeys(users)
        return number


class _Handler(BaseHTTPRequestHandler):
    server: Canvas

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not self._allowed():
            return
        if path == f"/api/v1/courses/{COURSE}/assignments":
            self._page(self.server.assignments)
        elif match := re.fullmatch(rf"/api/v1/courses/{COURSE}/assignments/(\d+)/submissions", path):
            number, asked = int(match[1]), ("include[]", "submission_comments") in parse_qsl(urlsplit(self.path).query)
            self._page([
                {"user_id": int(user), "score": mark, "entered_score": mark, "excused": user in self.server.excused}
                | ({"submission_comments": self._comments(number, user)} if asked else {})
                for user, mark in self.server.marks[number].items()
            ])  # fmt: skip
        elif match := re.fullmatch(r"/api/v1/progress/(\d+)", path):
            states = self.server.jobs[int(match[1])]
            self._answer({"id": int(match[1]), "workflow_state": states.pop(0) if len(states) > 1 else states[0]})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        match = re.fullmatch(rf"/api/v1/courses/{COURSE}/assignments/(\d+)/submissions/update_grades", self.path)
        if not self._allowed() or not match:
            return
        self.server.posts += 1
        number = int(match[1])
        if any(f"[{user}]" in name for user in self.server.breaks for name in form):
            self.server.jobs[self.server.posts] = ["running", "failed"]
            self._answer({"id": self.server.posts, "workflow_state": "queued"})
            return
        for name, value in form.items():
            field = re.fullmatch(r"grade_data\[(\d+)\]\[(posted_grade|text_comment)\]", name)
            assert field, name
            if field[2] == "text_comment":
                if field[1] not in self.server.refuses:
                    self.server.comments.setdefault((number, field[1]), []).append(value)
                continue
            if sum(self.server.stored.values()) == self.server.stops_after:
                self.server.stopped.set()
                threading.Event().wait()
            if field[1] not in self.server.refuses:
                self.server.marks[number][field[1]] = float(value)
            self.server.stored[number, field[1]] = self.server.stored.get((number, field[1]), 0) + 1
        self.server.jobs[self.server.posts] = ["running", "completed"]
        self._answer({"id": self.server.posts, "workflow_state": "queued"})

    def _comments(self, number: int, user: str) -> list[dict[str, str]]:
        return [{"comment": text.replace("\n", "\r\n")} for text in self.server.comments.get((number, user), [])]

    def _allowed(self) -> bool:
        self.server.requests += 1
        if self.server.moved_to:
            self.send_response(302)
            self.send_header("Location", f"{self.server.moved_to}{self.path}")
            self.end_headers()
        elif self.headers["Authorization"] != f"Bearer {self.server.token}":
            self.send_error(401)
        elif self.server.busy:
            self.server.busy -= 1
            self.send_error(429)
        else:
            return True
        return False

    def _page(self, rows: list[Any]) -> None:
        """Two rows, and a link to the next ones."""
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        page = int(query.get("page", 1))
        address = f"{self.server.links_to or self.server.url}{parts.path}?{urlencode({**query, 'page': page + 1})}"
        more = f'<{address}>; rel="next"' if rows[2 * page :] or self.server.links_to else ""
        self._answer(rows[2 * page - 2 : 2 * page], more)

    def _answer(self, value: Any, link: str = "") -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        if link:
            self.send_header("Link", link)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[Canvas]:
    with Canvas() as server:
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
