"""The studio as a learner's server of a JupyterHub, which starts `python -m studio.hub` with its variables.

It takes the place of `jupyterhub-singleuser`, which alone needs 100 MB. It lets in those whom the Hub allows to use
this server: a browser signs in there by OAuth and keeps the token that the Hub gave for it in a cookie of this server.
A request that is let in gets the secret of a proxy, as from a Jupyter server, and then needs all that `guard` asks for.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commandline.errors import CommandError
from commandline.http_json import NoAnswerError, ask
from studio.guard import PROXY, Body, Front
from studio.jupyter import NAME

_SPEAKS = "5.0.0"  # the version of the Hub whose requests these are; the Hub warns if its own is of another kind
_SIGNED_IN, _BEGUN = "gpt-kata-token", "gpt-kata-begun-"  # cookies; the state of a sign-in ends the name of the second
_SESSION = "jupyterhub-session-id"  # a cookie of the Hub, which it changes when somebody signs out
_SECONDS = 8.0  # for an answer of the Hub: less than a connection may take until it shows the secret
_REMEMBERED = 300.0  # seconds for which the Hub is not asked again about a token, as in jupyterhub-singleuser
_MOST_REMEMBERED = 200
_SIGN_IN_SECONDS = 600
_FORM = "application/x-www-form-urlencoded"
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


@dataclass(frozen=True)
class Hub:
    """The Hub, as its variables describe it.

    Attributes:
        api: The address of its API for this server.
        token: The token of this server.
        client: The name of this server as an OAuth client.
        sign_in: The address of the Hub where a browser signs in.
        callback: The address of this server that the browser comes back to.
        scopes: The scopes of which a token must have one.
        prefix: The path below which this server's addresses are. It ends with a slash.
        activity: The address for reports of activity; empty if it wants none.
        name: The name of this server among those of its user.
    """

    api: str
    token: str
    client: str
    sign_in: str
    callback: str
    scopes: frozenset[str]
    prefix: str
    activity: str
    name: str
    _known: dict[tuple[str, str], tuple[float, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "Hub":
        """Returns the Hub that has started this process."""
        prefix, callback = env["JUPYTERHUB_SERVICE_PREFIX"], env["JUPYTERHUB_OAUTH_CALLBACK_URL"]
        client = env["JUPYTERHUB_CLIENT_ID"]
        query = urlencode({"client_id": client, "redirect_uri": callback, "response_type": "code"})
        return cls(
            env["JUPYTERHUB_API_URL"], env["JUPYTERHUB_API_TOKEN"], client,
            f"{env.get('JUPYTERHUB_HOST', '')}{env['JUPYTERHUB_BASE_URL']}hub/api/oauth2/authorize?{query}",
            callback, frozenset(json.loads(env["JUPYTERHUB_OAUTH_ACCESS_SCOPES"])), prefix,
            env.get("JUPYTERHUB_ACTIVITY_URL", ""), env.get("JUPYTERHUB_SERVER_NAME", ""),
        )  # fmt: skip

    async def token_for(self, code: str) -> str:
        """Returns the token for the code with which a browser came back; empty if the code is not valid. Raises
        NoAnswerError."""
        words = {"client_id": self.client, "client_secret": self.token, "grant_type": "authorization_code"}
        body = urlencode({**words, "code": code, "redirect_uri": self.callback})
        status, said = await _ask("POST", f"{self.api}/oauth2/token", self.token, body, kind=_FORM)
        if status >= 500:
            raise NoAnswerError
        return str(said["access_token"]) if status == 200 else ""

    async def admits(self, token: str, session: str) -> bool:
        """Returns whether the user of a token may use this server. While the Hub is silent, its last answer counts.
        Raises NoAnswerError if there is none."""
        now, key = time.monotonic(), (session, token)
        since, admitted = self._known.get(key, (-_REMEMBERED, False))
        if now - since < _REMEMBERED:
            return admitted
        try:
            status, said = await _ask("GET", f"{self.api}/user", token)
            if status >= 500:
                raise NoAnswerError
        except NoAnswerError:
            if key in self._known:
                return admitted
            raise
        admitted = status == 200 and said["kind"] == "user" and not self.scopes.isdisjoint(said["scopes"])
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = now, admitted
        return admitted

    async def report(self, last: datetime) -> None:
        """Reports when this server was last used. Raises NoAnswerError."""
        when = {"last_activity": last.isoformat()}
        await _ask("POST", self.activity, self.token, json.dumps({"servers": {self.name: when}, **when}))


async def _ask(*words: str, kind: str = "application/json") -> tuple[int, Any]:
    return await asyncio.to_thread(ask, *words, kind=kind, seconds=_SECONDS)


class Door:
    """Middleware around the studio: shows it, with the secret of a proxy, those whom the Hub admits."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.front = Front(
            prefix=f"{hub.prefix}{NAME}", secret=secrets.token_urlsafe(32), opens_from="from the page of your hub"
        )
        self._used = datetime.now(UTC)

    def around(self, app: ASGIApp) -> ASGIApp:
        """Returns the application that serves this one to those who are admitted."""

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_with_version(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message)["X-JupyterHub-Version"] = _SPEAKS
                await send(message)

            answer = await self._answer(scope) if scope["type"] == "http" else None
            if answer:
                await Body(receive).drain()
            await (answer or app)(scope, receive, send_with_version)

        return served

    @contextlib.asynccontextmanager
    async def reporting(self, every: float) -> AsyncIterator[None]:
        """Reports to the Hub, so that its culler ends only servers that nobody uses. `every` is in seconds."""

        async def report() -> None:
            reported: datetime | None = None
            while True:
                used = self._used
                if used != reported:
                    with contextlib.suppress(NoAnswerError):  # the next report has the same time, or a later one
                        await self.hub.report(used)
                        reported = used
                await asyncio.sleep(every)

        task = asyncio.create_task(report()) if self.hub.activity else None
        try:
            yield
        finally:
            if task:
                task.cancel()

    async def _answer(self, scope: Scope) -> Response | None:
        """Returns the answer to a request that the application must not see. Adds the secret to any other one."""
        request, path = Request(scope), scope["path"]
        wants_page = scope["method"] == "GET" and "text/html" in request.headers.get("accept", "")
        try:
            if path == urlsplit(self.hub.callback).path:
                return await self._finish(request)
            token = request.cookies.get(_SIGNED_IN, "")
            if not (token and await self.hub.admits(token, request.cookies.get(_SESSION, ""))):
                return self._begin(request) if wants_page else _refused("Sign in at the hub: reload this page.", 403)
        except NoAnswerError:
            return _refused("The hub does not answer. Try again in a minute.", 503)
        self._used = datetime.now(UTC)
        if wants_page and not path.startswith(self.front.prefix):
            return RedirectResponse(f"{self.front.prefix}/", 302, _PRIVATE)
        scope["headers"] = [*scope["headers"], (PROXY.encode(), self.front.secret.encode())]
        return None

    def _begin(self, request: Request) -> Response:
        """Sends a browser to the Hub. A cookie says that it went from here, and what for."""
        state = secrets.token_urlsafe(32)
        response = RedirectResponse(f"{self.hub.sign_in}&state={state}", 302, _PRIVATE)
        path = b"?".join(filter(None, (request.scope["raw_path"], request.scope["query_string"])))
        self._set(request, response, _BEGUN + state, quote(path, safe=""), _SIGN_IN_SECONDS)
        return response

    async def _finish(self, request: Request) -> Response:
        """Takes a browser that comes back from the Hub, unless it is another one than was sent there."""
        state = request.query_params.get("state", "")
        path = unquote(request.cookies.get(_BEGUN + state, ""))
        if not (state and path.startswith(self.hub.prefix)):
            return _refused("This sign-in did not begin here. Open the page again.", 403)
        token = await self.hub.token_for(request.query_params.get("code", ""))
        if not (token and await self.hub.admits(token, request.cookies.get(_SESSION, ""))):
            return _refused("The hub does not let you use this server.", 403)
        response = RedirectResponse(path, 302, _PRIVATE)
        self._set(request, response, _SIGNED_IN, token)
        response.delete_cookie(_BEGUN + state, path=self.hub.prefix)
        return response

    def _set(self, request: Request, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        forwarded = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0].strip()
        response.set_cookie(
            name, value, seconds, path=self.hub.prefix, httponly=True, samesite="lax", secure=forwarded == "https"
        )  # lax: a browser comes from the Hub, and perhaps from a course page before that


def _refused(words: str, status: int) -> Response:
    return PlainTextResponse(f"{words}\n", status, _PRIVATE)


def main() -> None:
    """Serves the studio where the Hub says. The workspace is that of the current folder."""
    from grader.course import selection, workspace
    from studio import server

    door, place = Door(Hub.of(os.environ)), urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    every = float(os.environ.get("JUPYTERHUB_ACTIVITY_INTERVAL", "300"))
    host = place.hostname or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, place.port or 80), family=family) as sock, contextlib.suppress(KeyboardInterrupt):
        try:
            space = workspace.find(None)
            selection.select(None, space.course)
            server.serve_hub(space, Path("runs"), sock, door, every)
        except CommandError as error:
            server.say(str(error), sock, door.front, door.around)
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
