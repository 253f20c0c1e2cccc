"""Admits requests to the studio: checks what every request must carry, and adds headers for the browser to every
response.

Other programs and other web pages on this machine can reach the port. So a request needs the path and the cookie that
only the address printed in the terminal leads to, the name of this server as its host, and, if it changes anything, a
page of the studio as its origin. `keys` describes the secrets.

Behind a proxy that knows its users, such as a Jupyter server, the proxy's secret leads to the path and the cookie, and
the host is the name under which the browser reached the proxy.
"""

import contextlib
import secrets
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from markupsafe import escape
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.keys import Keys, matches, without_start

LARGEST_BODY = 2 << 20  # bytes; a file of a problem has at most half of that, and JSON escapes some of it
RENEWAL = "/renewal"  # the path at which an open page gets the secrets of a new start
PROXY = "x-gpt-kata-proxy"
_COOKIE = "studio"
_SAFE_METHODS = ("GET", "HEAD")
_LONGEST_PROOF = 1000  # bytes of a body

HEADERS = {
    # A page holds the renewal key, and a program that has the port later could ask the browser for what it has stored.
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def policy(nonce: str) -> str:
    """Returns the Content-Security-Policy: nothing but the studio's own files.

    The editor needs the nonce for its style sheet, and a style attribute for the width of a tab.
    """
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
        "style-src-attr 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@dataclass(frozen=True)
class Front:
    """The place where browsers reach the studio: at a port of this machine, or below the `prefix` of a proxy, which
    sends `secret` in the header PROXY of each request. `opens_from` says where its user opens the studio."""

    port: int = 0
    prefix: str = ""
    secret: str = ""
    opens_from: str = "at the address that `grade web` printed in your terminal"

    @property
    def is_proxy(self) -> bool:
        return bool(self.secret)

    def knows(self, headers: Headers) -> bool:
        """Returns whether the request came by the way that it should: from the proxy, or under the name of this
        server."""
        if self.is_proxy:
            return matches(headers.get(PROXY, ""), self.secret)
        return headers.get("host", "") in (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    def host(self, headers: Headers) -> str:
        """Returns the host and port that the browser asked. A page of another address cannot add the header of a proxy
        to a request."""
        forwarded = headers.get("x-forwarded-host", "").partition(",")[0].strip() if self.is_proxy else ""
        return forwarded or headers.get("host", "")

    def is_ours(self, headers: Headers) -> bool:
        """Returns whether a page of the studio sent the request."""
        host = self.host(headers)
        origins = (f"http://{host}", f"https://{host}") if self.is_proxy else (f"http://{host}",)
        return headers.get("origin") in origins and headers.get("sec-fetch-site", "same-origin") == "same-origin"


class Guard:
    """Middleware around the whole application.

    Puts into the scope a fresh `nonce` for style sheets, the renewal key, and the prefix of all addresses.
    """

    def __init__(self, app: ASGIApp, keys: Keys, front: Front) -> None:
        self._app, self._keys, self._front = app, keys, front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["nonce"], scope["renewal"] = secrets.token_urlsafe(16), self._keys.renewal
        scope["prefix"], scope["opens_from"] = self._front.prefix, self._front.opens_from

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = policy(scope["nonce"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        body = Body(receive)
        answer = await self._answer(scope, Headers(scope=scope), body)
        if answer is None:
            scope["state"]["connection"].admit()
            scope["root_path"] = self._keys.path
            if scope["path"] == self._keys.path:
                scope["path"] += "/"
        elif self._front.is_proxy:
            await body.drain()  # a proxy that cannot send all of it takes the refusal for an error of the connection
        await (answer or self._app)(scope, body, send_with_headers)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive) -> Response | None:
        """Returns the answer to a request that the application must not see."""
        if "content-length" in headers and "transfer-encoding" in headers:
            return _refused("A body has either a length or an encoding.", 400, Connection="close")
        if not self._front.knows(headers):
            return _refused(f"This server answers only to its own name. Open the studio {self._front.opens_from}.", 421)
        writes = scope["method"] not in _SAFE_METHODS
        if writes and not self._front.is_ours(headers):
            return _refused("Only pages of the studio can change anything.", 403)
        if not headers.get("content-length", "0").isdecimal() or int(headers.get("content-length", "0")) > LARGEST_BODY:
            return _refused("That is too large.", 413)
        inner = scope["path"].removeprefix(self._front.prefix)
        if inner == RENEWAL:
            host = self._front.host(headers)
            return await self._renew(Request(scope, receive), host) if writes else self._challenge()
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        offered = next((value for name, value in query if name == "token"), "")
        if matches(offered, self._keys.token) and not writes:
            return self._admit(scope, inner, query)
        first, _, _ = inner[1:].partition("/")
        if matches(f"{self._front.prefix}/{first}", self._keys.path) and self._has_cookie(headers):
            return None
        if self._front.is_proxy and not writes and "text/html" in headers.get("accept", ""):
            return self._admit(
                scope, without_start(inner), query
            )  # also a link to a page, and that of an earlier start
        return _refused(f"Open the studio {self._front.opens_from}.", 403)

    def _admit(self, scope: Scope, path: str, query: list[tuple[str, str]]) -> Response:
        """Exchanges the token in the address, or the secret of the proxy, for the cookie, and leads to the requested
        path.

        Answers with a page instead of a redirect: a browser that comes from the file that `grade web` opens would not
        send a strict cookie after a redirect.
        """
        scope["state"]["connection"].admit()
        query = [(name, value) for name, value in query if name != "token"]
        target = escape(f"{self._keys.path}/{path.lstrip('/')}" + (f"?{urlencode(query)}" if query else ""))
        refresh = f'<meta http-equiv="refresh" content="0; url={target}">'
        text = f'<!doctype html>{refresh}<link rel="icon" href="data:,"><a href="{target}">The studio</a>'
        return self._with_cookie(HTMLResponse(text))

    def _challenge(self) -> Response:
        return JSONResponse({"challenge": self._keys.challenge})

    async def _renew(self, request: Request, host: str) -> Response:
        """Sends the secrets of this start to a page that has proved that it has its renewal key."""
        proof = b""
        async for part in request.stream():
            proof += part
            if len(proof) > _LONGEST_PROOF:
                return _refused("That is too large.", 413)
        key = self._keys.signer(proof.decode("latin-1"), host)
        if key is None:
            return _refused("This page is of an earlier start of the studio.", 403)
        request.state.connection.admit()
        return self._with_cookie(JSONResponse(self._keys.renewed(key)))

    def _with_cookie(self, response: Response) -> Response:
        response.set_cookie(_COOKIE, self._keys.cookie, path=self._keys.path, httponly=True, samesite="strict")
        return response

    def _has_cookie(self, headers: Headers) -> bool:
        # Servers on other ports can set a cookie of the same name, for another path.
        cookies = (cookie.strip().partition("=") for cookie in headers.get("cookie", "").split(";"))
        return any(name == _COOKIE and matches(value, self._keys.cookie) for name, _, value in cookies)


def _refused(words: str, status: int, **headers: str) -> Response:
    return PlainTextResponse(f"{words}\n", status, headers)


class Body:
    """The body of a request, also of one without a stated length. Raises HTTPException if it is too large."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._received, self._is_over = 0, False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        self._is_over = not message.get("more_body", False)
        if self._received > LARGEST_BODY:
            raise HTTPException(413, "That is too large.")
        return message

    async def drain(self) -> None:
        """Reads the remaining body, if it is not too large."""
        with contextlib.suppress(HTTPException):
            while not self._is_over:
                await self()
