"""The page for teachers: who handed in what, what waits, and the tables of the class, for who has signed in at the Hub.

A browser gets a random session, which stands for the token that the Hub gave for it. All requests only read.
"""

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple, Protocol

import jinja2
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from commandline.errors import CommandError
from commandline.problem_name import ProblemName
from grader.batch.hand_ins import HandIn
from hosting.class_folder import ClassFolder
from hosting.inbox import Inbox

_SESSION, _STATE = "hand-in-session", "hand-in-state"  # cookies
_MOST_SESSIONS = 1000
_MOST_SHOWN = 200  # attempts
_LOG = 3000  # characters of the last batch's
_SHOWN = (".csv", ".html")  # of the results; the seed and the database stay where they are
# The page of a class shows names and texts of learners. As of another origin, it could do nothing with them.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'"
_SANDBOX = f"sandbox allow-scripts; {_POLICY}; script-src 'unsafe-inline'; img-src data:"

_PAGE = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{ name }}: what was handed in</title>
<style>body { font: 16px/1.5 system-ui; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse } th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0 }
pre { white-space: pre-wrap; background: #f4f4f4; padding: 0.5rem }</style>
<h1>{{ name }}</h1>
<p>{{ count }} attempts of {{ learners }} learners; {{ waiting }} not graded yet.</p>
{% if trouble %}<p role="alert"><strong>{{ trouble }}</strong></p>
{% endif %}
<h2>Results</h2>
<ul>
{% for file in files %}<li><a href="files/{{ file }}">{{ file }}</a></li>
{% else %}<li>None yet.</li>
{% endfor %}
</ul>
<h2>Handed in last</h2>
<table><thead><tr><th scope="col">Received</th><th scope="col">Learner</th><th scope="col">Problem</th>
<th scope="col">State</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table>
<h2>The last lines of the gradings</h2>
<pre>{{ log }}</pre>
</html>
""")


class User(NamedTuple):
    """A user of the Hub, as a token names them."""

    name: str
    is_teacher: bool = False


class SignIn(Protocol):
    """The way to sign in at the Hub."""

    @property
    def login_url(self) -> str:
        """The address of the Hub that leads back with a code. A state is appended."""

    async def token(self, code: str) -> str:
        """Returns the token for a code. Raises HTTPException."""


class Sessions:
    """The browsers that have signed in, by the random value of their cookie."""

    def __init__(self, sign_in: SignIn, prefix: str) -> None:
        self._sign_in, self._prefix = sign_in, prefix
        self._tokens: OrderedDict[str, str] = OrderedDict()

    def token(self, request: Request) -> str:
        """Returns the token of the Hub for a browser; empty if it has not signed in."""
        return self._tokens.get(request.cookies.get(_SESSION, ""), "")

    def begin(self, request: Request) -> Response:
        """Sends a browser to the Hub."""
        state = secrets.token_urlsafe(32)
        response = RedirectResponse(f"{self._sign_in.login_url}&state={state}", 302)
        self._set(request, response, _STATE, state)
        return response

    async def finish(self, request: Request) -> Response:
        """Takes a browser that comes back from the Hub. Raises HTTPException unless it began here."""
        state, code = request.query_params.get("state", ""), request.query_params.get("code", "")
        expected = request.cookies.get(_STATE, "")
        if not expected or not secrets.compare_digest(state.encode(), expected.encode()):
            raise HTTPException(403, "This sign-in did not begin here. Open the page again.")
        session = secrets.token_urlsafe(32)
        self._tokens[session] = await self._sign_in.token(code)
        if len(self._tokens) > _MOST_SESSIONS:
            self._tokens.popitem(last=False)
        response = RedirectResponse(self._prefix, 302)
        self._set(request, response, _SESSION, session)
        response.delete_cookie(_STATE, path=self._prefix)
        return response

    def _set(self, request: Request, response: Response, name: str, value: str) -> None:
        forwarded = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0]
        response.set_cookie(
            name, value, path=self._prefix, httponly=True, samesite="lax", secure=forwarded == "https"
        )  # lax: a browser comes from the Hub, and with subdomains that is another site


async def page(of: ClassFolder, inbox: Inbox, waiting: Sequence[HandIn]) -> Response:
    """Returns the page."""
    return HTMLResponse(await run_in_threadpool(_rendered, of, inbox, waiting), headers=_headers(_POLICY))


def file(of: ClassFolder, name: str) -> Response:
    """Returns a table or a page of the results. Raises HTTPException 404 if there is none of that name."""
    if name not in _files(of):
        raise HTTPException(404, "There is no such file.")
    path = of.results / name
    if path.suffix == ".html":
        return FileResponse(path, headers=_headers(_SANDBOX))
    return FileResponse(path, filename=name, headers=_headers(_POLICY))


def _headers(policy: str) -> dict[str, str]:
    return {
        "Content-Security-Policy": policy, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }  # fmt: skip


def _files(of: ClassFolder) -> list[str]:
    found: Sequence[Path] = sorted(of.results.iterdir()) if of.results.is_dir() else ()
    return [path.name for path in found if path.suffix in _SHOWN and path.is_file() and not path.is_symlink()]


def _rendered(of: ClassFolder, inbox: Inbox, waiting: Sequence[HandIn]) -> str:
    every, trouble = inbox.all(), ""
    try:
        zone = of.rules().timezone
    except CommandError as error:
        zone, trouble = None, str(error)
    newest = sorted(every, key=lambda one: one.received, reverse=True)[:_MOST_SHOWN]
    return _PAGE.render(
        name=of.folder.name,
        count=len(every),
        learners=len({one.learner for one in every}),
        waiting=len(waiting),
        trouble=trouble,
        files=_files(of),
        rows=[_row(one, one in waiting, zone) for one in newest],
        log=of.log.read_text(encoding="utf-8", errors="replace")[-_LOG:] if of.log.is_file() else "",
    )


def _row(one: HandIn, is_waiting: bool, zone: tzinfo | None) -> tuple[str, ...]:
    received = f"{one.received.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    return received, one.learner, ProblemName(one.problem).label, "waits" if is_waiting else "graded"
