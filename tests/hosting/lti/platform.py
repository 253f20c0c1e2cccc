"""A Canvas or a Moodle on this machine: logins, launches, deep linking, access tokens, columns, scores and members, as
both publish them.

What differs between the two follows their sources: `app/controllers/lti/ims` of canvas-lms, `mod/lti` of moodle.
"""

import html
import json
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from hosting.lti import claims as names

System = Literal["canvas", "moodle"]
COURSE, OTHER_COURSE = "5", "6"
_MEMBERSHIP = "http://purl.imsglobal.org/vocab/lis/v2/membership#"
_TYPE_ID = "7"  # the number of the tool in Moodle
_COLUMN = {
    "canvas": r"/api/lti/courses/(\d+)/line_items(?:/(\d+)(/scores|/results|))?",
    "moodle": r"/mod/lti/services\.php/(\d+)/lineitems(?:/(\d+)/lineitem(/scores|/results|))?",
}
_MEMBERS = {
    "canvas": r"/api/lti/courses/(\d+)/names_and_roles",
    "moodle": rf"/mod/lti/services\.php/CourseSection/(\d+)/bindings/{_TYPE_ID}/memberships",
}


@cache
def key(name: str) -> rsa.RSAPrivateKey:
    """A key of this name, made once for all tests."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class User:
    """A user of a platform, with the roles in its course."""

    id: str
    name: str
    roles: list[str] = field(default_factory=lambda: ["Learner"])
    courses: tuple[str, ...] = (COURSE,)
    status: str = "Active"


@dataclass
class Column:
    """A column of a gradebook."""

    number: int
    course: str
    values: dict[str, Any]
    marks: dict[str, "Entry"] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A mark in a gradebook. `by_hand` if a teacher entered it."""

    mark: float
    maximum: float
    time: datetime
    by_hand: bool = False


class LearningPlatform(ThreadingHTTPServer):
    """`sent` are the scores that arrived, in order, with the number of their column; `asked` the paths of all requests.

    Lists have two rows a page in Canvas. To misbehave: with `failures`, so many requests for a token are answered with
    500; with `busy`, so many others with 429. `loses` is a part of a path: what is posted there is stored, and the
    connection closed without an answer, once; with `holds`, the answer never comes instead, and `held` is set.
    `column_of` names a course in whose place another's columns are listed. With `next_page`, lists continue there.
    """

    daemon_threads = True

    def __init__(self, system: System) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.system = system
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.issuer = "https://canvas.instructure.com" if system == "canvas" else self.url
        self.client_id, self.deployment = f"client-of-{system}", f"deployment-of-{system}"
        self.key_names = ["first"]
        self.tool_keys: dict[str, Any] = {"keys": []}
        self.login_address = ""
        self.redirect_addresses: list[str] = []
        self.users = {user.id: user for user in _users()}
        self.columns: list[Column] = []
        self.links: list[dict[str, Any]] = []
        self.sent: list[tuple[int, dict[str, Any]]] = []
        self.asked: list[str] = []
        self.tokens: dict[str, set[str]] = {}
        self.scopes = [*names.GRADE_SCOPES, names.MEMBERSHIP_READ]
        self.assertions: set[str] = set()
        self.failures = self.busy = 0
        self.loses = self.column_of = self.next_page = ""
        self.holds = False
        self.held = threading.Event()

    # What a person does

    def login(self, user: str, target: str, **more: str) -> str:
        """The address that a click on a link leads to: the tool's login."""
        values = {
            "iss": self.issuer, "client_id": self.client_id, "login_hint": user, "target_link_uri": target,
            "lti_message_hint": f"hint of {user}", "lti_deployment_id": self.deployment,
        }  # fmt: skip
        return f"{self.login_address}?{urlencode(values | more)}"

    def column(self, problem: str, course: str = COURSE) -> Column:
        """The one column for a problem."""
        (found,) = [one for one in self.columns if (one.course, one.values.get("resourceId")) == (course, problem)]
        return found

    def add_column(self, course: str, **values: Any) -> Column:
        self.columns.append(Column(100 + len(self.columns), course, values))
        return self.columns[-1]

    # What a platform says

    def claims(self, user: str, nonce: str, **more: Any) -> dict[str, Any]:
        """The claims of a launch that opens a link in COURSE."""
        now, person = int(time.time()), self.users[user]
        return {
            "iss": self.issuer,
            "aud": self.client_id,
            **({"azp": self.client_id} if self.system == "canvas" else {}),
            "sub": user,
            "nonce": nonce,
            "iat": now,
            "exp": now + (3600 if self.system == "canvas" else 60),
            "name": person.name,
            names.DEPLOYMENT: self.deployment,
            names.VERSION: names.LTI_VERSION,
            names.MESSAGE: names.OPENS_A_LINK,
            names.ROLES: [f"{_MEMBERSHIP}{role}" for role in person.roles],
            names.CONTEXT: {"id": COURSE, "label": "LM1", "title": "Language models", "type": ["CourseSection"]},
            f"{names.CLAIM}resource_link": {"id": "31", "title": "01"},
            f"{names.CLAIM}target_link_uri": "",
            names.CUSTOM: {"problem": "p01_token_embedding"},
            names.ENDPOINT: {"scope": [*names.GRADE_SCOPES], "lineitems": self.line_items(COURSE)},
            names.NAMES_AND_ROLES: {"context_memberships_url": self.memberships(COURSE), "service_versions": ["2.0"]},
            **more,
        }

    def line_items(self, course: str) -> str:
        if self.system == "canvas":
            return f"{self.url}/api/lti/courses/{course}/line_items"
        return f"{self.url}/mod/lti/services.php/{course}/lineitems?type_id={_TYPE_ID}"

    def address(self, column: Column) -> str:
        container, _, query = self.line_items(column.course).partition("?")
        return f"{container}/{column.number}" + (f"/lineitem?{query}" if query else "")

    def memberships(self, course: str) -> str:
        if self.system == "canvas":
            return f"{self.url}/api/lti/courses/{course}/names_and_roles"
        return f"{self.url}/mod/lti/services.php/CourseSection/{course}/bindings/{_TYPE_ID}/memberships"

    def choosing(self, **settings: Any) -> dict[str, Any]:
        """The claims that make a launch one that chooses links."""
        return {
            names.MESSAGE: names.CHOOSES_LINKS,
            names.SETTINGS: {
                "accept_types": ["ltiResourceLink"], "accept_presentation_document_targets": ["iframe", "window"],
                "accept_multiple": True, "auto_create": False, "data": "opaque",
                "deep_link_return_url": f"{self.url}/deep_linking_response", **settings,
            },
        }  # fmt: skip

    def token(self, claims: dict[str, Any], key_name: str = "") -> str:
        """An id_token with these claims."""
        name = key_name or self.key_names[-1]
        return jwt.encode(claims, key(name), "RS256", {"kid": name})

    def public_keys(self) -> dict[str, Any]:
        rows = [RSAAlgorithm.to_jwk(key(name).public_key(), as_dict=True) | {"kid": name} for name in self.key_names]
        return {"keys": rows}


def _users() -> list[User]:
    return [
        User("17", "Ada Lovelace"),
        User("18", "Bob, =cmd()"),
        User("19", "Grace Hopper"),
        User("20", "Gone", status="Inactive"),
        User("21", "Elsewhere", courses=(OTHER_COURSE,)),
        User("99", "Teacher", roles=["Instructor"]),
    ]


class _Handler(BaseHTTPRequestHandler):
    server: LearningPlatform

    def do_GET(self) -> None:
        self._act("")

    def do_POST(self) -> None:
        self._act(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _act(self, body: str) -> None:
        parts, server = urlsplit(self.path), self.server
        server.asked.append(f"{self.command} {parts.path}")
        query = dict(parse_qsl(parts.query))
        if parts.path == "/keys":
            self._answer(server.public_keys())
        elif parts.path == "/authorize":
            self._authorize(query)
        elif parts.path == "/token":
            self._give_token(dict(parse_qsl(body)))
        elif parts.path == "/deep_linking_response":
            self._take_links(dict(parse_qsl(body))["JWT"])
        elif server.busy:
            server.busy -= 1
            self._refuse(429, "Too Many Requests", **{"Retry-After": "120"})
        elif match := re.fullmatch(_MEMBERS[server.system], parts.path):
            if self._may(names.MEMBERSHIP_READ):
                self._members(match[1])
        elif match := re.fullmatch(_COLUMN[server.system], parts.path):
            if server.system == "moodle" and query.get("type_id") != _TYPE_ID:
                self._refuse(403, "Forbidden")
            else:
                self._gradebook(match[1], match[2], match[3], query, body)
        else:
            self._refuse(404, "Not Found")

    def _authorize(self, query: dict[str, str]) -> None:
        server = self.server
        expected = {
            "scope": "openid", "response_type": "id_token", "response_mode": "form_post", "prompt": "none",
            "client_id": server.client_id,
        }  # fmt: skip
        good = expected.items() <= query.items() and query["redirect_uri"] in server.redirect_addresses
        if not good or query.get("lti_message_hint") != f"hint of {query['login_hint']}":
            self._refuse(400, "invalid_request")
            return
        token = server.token(server.claims(query["login_hint"], query["nonce"]))
        self._form(query["redirect_uri"], id_token=token, state=query["state"])

    def _form(self, address: str, **values: str) -> None:
        inputs = "".join(
            f'<input type="hidden" name="{name}" value="{html.escape(value)}">' for name, value in values.items()
        )
        form = f'<form action="{html.escape(address)}" method="post">{inputs}</form>'
        self._answer(f"{form}<script>document.forms[0].submit()</script>")

    def _give_token(self, form: dict[str, str]) -> None:
        server = self.server
        if server.failures:
            server.failures -= 1
            self._refuse(500, "Internal Server Error")
            return
        wanted = form["scope"].split()
        claims = self._of_tool(form["client_assertion"], f"{server.url}/token")
        proper = form["grant_type"] == "client_credentials" and form["client_assertion_type"].endswith(":jwt-bearer")
        if not claims or not proper or claims["sub"] != server.client_id or claims["jti"] in server.assertions:
            self._answer({"error": "invalid_client"}, status=400)
            return
        server.assertions.add(claims["jti"])
        granted = set(wanted) & set(server.scopes)
        if not granted or (server.system == "canvas" and granted != set(wanted)):
            self._answer({"error": "invalid_scope"}, status=400)
            return
        token = secrets.token_hex(8)
        server.tokens[token] = granted
        self._answer({"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": " ".join(granted)})

    def _of_tool(self, token: str, audience: str) -> dict[str, Any] | None:
        try:
            name = jwt.get_unverified_header(token)["kid"]
            own = next(row for row in self.server.tool_keys["keys"] if row["kid"] == name)
            options = {"require": ["exp", "iat"]}
            return jwt.decode(
                token, jwt.PyJWK(own), ["RS256"], audience=audience, issuer=self.server.client_id, options=options
            )
        except (jwt.PyJWTError, StopIteration):
            return None

    def _take_links(self, token: str) -> None:
        server, claims = self.server, self._of_tool(token, self.server.issuer)
        if (
            not claims
            or claims[names.MESSAGE] != names.CHOSEN_LINKS
            or claims[names.DEPLOYMENT] != server.deployment
            or claims[names.DATA] != "opaque"
            or claims["nonce"] in server.assertions
        ):
            self._refuse(400, "Bad Request")
            return
        server.assertions.add(claims["nonce"])
        for item in claims[names.CONTENT_ITEMS]:
            server.links.append(item)
            server.add_column(COURSE, **item["lineItem"], resourceLinkId=str(300 + len(server.links)))
        self._answer("added")

    def _gradebook(self, course: str, number: str | None, part: str | None, query: dict[str, str], body: str) -> None:
        server, posts = self.server, self.command == "POST"
        if number is None:
            if not self._may(names.LINE_ITEM, *([] if posts else [names.LINE_ITEM_READ])):
                return
            if posts:
                self._create(course, body)
            elif self._accepts(self.headers["Accept"], names.LINE_ITEMS_TYPE):
                shown = server.column_of or course
                rows = [self._as_json(one) for one in server.columns if one.course == shown]
                wanted = query.get("resource_id")
                self._page([row for row in rows if wanted in (None, row.get("resourceId"))], query)
            return
        column = next((one for one in server.columns if (one.course, str(one.number)) == (course, number)), None)
        if column is None:
            self._refuse(404, "Not Found")
        elif part == "/results" and self._may(names.RESULT_READ):
            self._results(column, query)
        elif (
            part == "/scores"
            and self._may(names.SCORE)
            and self._accepts(self.headers["Content-Type"], names.SCORE_TYPE)
        ):
            self._take_score(column, json.loads(body))

    def _create(self, course: str, body: str) -> None:
        if self._accepts(self.headers["Content-Type"], names.LINE_ITEM_TYPE):
            column = self.server.add_column(course, **json.loads(body))
            self._confirm(self._as_json(column), 201)

    def _take_score(self, column: Column, score: dict[str, Any]) -> None:
        server, user = self.server, self.server.users.get(score["userId"])
        made, old = datetime.fromisoformat(score["timestamp"]), column.marks.get(score["userId"])
        assert score["activityProgress"] == "Completed"
        server.sent.append((column.number, score))
        if not user or column.course not in user.courses or user.status != "Active" or "Learner" not in user.roles:
            why = "User not found in course or is not a student"
            self._refuse(*((422, why) if server.system == "canvas" else (400, "Incorrect score received")))
            return
        if server.system == "canvas" and old and old.time > made:
            self._refuse(400, f"Provided timestamp of {made} before last updated timestamp of {old.time}")
            return
        if server.system == "moodle" and old and int(old.time.timestamp()) >= int(made.timestamp()):
            self._refuse(409, "Refusing score with an earlier timestamp")
            return
        scale = column.values["scoreMaximum"] / score["scoreMaximum"]
        stays = old and old.by_hand and score[names.CANVAS_SUBMISSION]["prioritize_non_tool_grade"]
        if not stays and score["gradingProgress"] == "FullyGraded":
            column.marks[user.id] = Entry(score["scoreGiven"] * scale, column.values["scoreMaximum"], made)
        self._confirm({"resultUrl": f"{server.url}/result"} if server.system == "canvas" else [], 200)

    def _results(self, column: Column, query: dict[str, str]) -> None:
        rows = [
            {"userId": user, "resultScore": entry.mark, "resultMaximum": entry.maximum}
            for user, entry in column.marks.items()
            if query.get("user_id") in (None, user)
        ]
        self._page(rows, query)

    def _members(self, course: str) -> None:
        server = self.server
        prefix = _MEMBERSHIP if server.system == "canvas" else ""
        rows = [
            {
                "status": user.status, "user_id": user.id, "name": user.name, "email": f"{user.id}@example.edu",
                "roles": [f"{prefix}{role}" for role in user.roles],
            }
            for user in server.users.values()
            if course in user.courses
        ]  # fmt: skip
        self._page(rows, dict(parse_qsl(urlsplit(self.path).query)), "members")

    def _as_json(self, column: Column) -> dict[str, Any]:
        return {"id": self.server.address(column), **column.values}

    def _page(self, rows: list[Any], query: dict[str, str], inside: str = "") -> None:
        """In Canvas, two rows and a link to the next ones."""
        server, parts = self.server, urlsplit(self.path)
        size = 2 if server.system == "canvas" else len(rows) + 1
        page = int(query.get("page", 1))
        address = f"{server.next_page or server.url}{parts.path}?{urlencode({**query, 'page': page + 1})}"
        links = {"Link": f'<{address}>; rel="next"'} if rows[size * page :] or server.next_page else {}
        shown = rows[size * (page - 1) : size * page]
        self._answer({"id": self.path, inside: shown} if inside else shown, **links)

    def _may(self, *scopes: str) -> bool:
        """Whether the access token has one of these scopes."""
        has = self.server.tokens.get((self.headers["Authorization"] or "").removeprefix("Bearer "), set())
        if not has & set(scopes):
            self._refuse(401, "Unauthorized")
        return bool(has & set(scopes))

    def _accepts(self, kind: str, wanted: str) -> bool:
        if kind != wanted:
            self._refuse(400, "No context or unsupported content type")
        return kind == wanted

    def _confirm(self, value: Any, status: int) -> None:
        """Answers that something was stored, unless the answer is to be lost."""
        server = self.server
        if server.loses and server.loses in f"{self.path}$":
            server.loses = ""
            if server.holds:
                server.held.set()
                threading.Event().wait()
            self.close_connection = True
            self.connection.close()
            return
        self._answer(value, status=status)

    def _answer(self, value: Any, status: int = 200, **headers: str) -> None:
        data = (value if isinstance(value, str) else json.dumps(value)).encode()
        kind = "text/html; charset=utf-8" if isinstance(value, str) else "application/json"
        self.send_response(status)
        for name, text in {"Content-Length": str(len(data)), "Content-Type": kind, **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, reason: str, **headers: str) -> None:
        """Canvas says why in the body, Moodle in the line of the status."""
        if self.server.system == "canvas":
            self._answer({"errors": {"message": reason}}, status, **headers)
            return
        self.send_response(status, reason)
        for name, text in {"Content-Length": "0", **headers}.items():
            self.send_header(name, text)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def running(system: System) -> Iterator[LearningPlatform]:
    with LearningPlatform(system) as server:
        threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
