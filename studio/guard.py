"""What every request must show before the studio answers, and what every answer tells the browser.

Other programs and other web pages on this machine can reach the port. So a request needs the path and the cookie that only the
address printed in the terminal leads to, the name of this server as its host, and, if it changes anything, a page of the studio
as its origin. `keys` says what the secrets are.
"""

import secrets
from urllib.parse import parse_qsl, urlencode

from markupsafe import escape
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.keys import Keys, matches

LARGEST_BODY = 2 << 20  # bytes; a file of a problem has at most half of that, and JSON escapes some of it
RENEWAL = "/renewal"  # where a page that is open gets the secrets of a new start
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
    """The Content-Security-Policy: nothing but the studio's own files.

    The editor needs the nonce for its style sheet, and a style attribute for the width of a tab.
    """
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; "
        "style-src-attr 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


class Guard:
    """Middleware around the whole application. Puts a fresh `nonce` for style sheets and the renewal key into the scope."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self._app, self._keys = app, keys
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["nonce"], scope["renewal"] = secrets.token_urlsafe(16), self._keys.renewal

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = policy(scope["nonce"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._answer(scope, Headers(scope=scope), receive)
        if answer is None:
            scope["state"]["connection"].admit()
            scope["root_path"] = self._keys.path
            if scope["path"] == self._keys.path:
                scope["path"] += "/"
        await (answer or self._app)(scope, _bounded(receive), send_with_headers)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive) -> Response | None:
        """The answer to a request that the application must not see."""
        if "content-length" in headers and "transfer-encoding" in headers:
            return _refused("A body has either a length or an encoding.", 400, Connection="close")
        host = headers.get("host", "")
        if host not in self._hosts:
            return _refused("This server answers only to its own name.", 421)
        writes = scope["method"] not in _SAFE_METHODS
        is_ours = (
            headers.get("origin") == f"http://{host}" and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        )
        if writes and not is_ours:
            return _refused("Only pages of the studio can change anything.", 403)
        if not headers.get("content-length", "0").isdecimal() or int(headers.get("content-length", "0")) > LARGEST_BODY:
            return _refused("That is too large.", 413)
        if scope["path"] == RENEWAL:
            return await self._renew(Request(scope, receive), host) if writes else self._challenge()
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        offered = next((value for name, value in query if name == "token"), "")
        if matches(offered, self._keys.token) and not writes:
            return self._admit(scope, [(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"][1:].partition("/")[0]
        if not matches(path, self._keys.path) or not self._has_cookie(headers):
            return _refused("Open the studio at the address that `grade web` printed in your terminal.", 403)
        return None

    def _admit(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Turns the token of the address into the cookie, and leads to the path that it is for.

        A page of its own does so: a browser that comes from the file that `grade web` opens would not send a strict cookie to
        where a redirect leads.
        """
        scope["state"]["connection"].admit()
        target = escape(f"{self._keys.path}/{scope['path'].lstrip('/')}" + (f"?{urlencode(query)}" if query else ""))
        refresh = f'<meta http-equiv="refresh" content="0; url={target}">'
        text = f'<!doctype html>{refresh}<link rel="icon" href="data:,"><a href="{target}">The studio</a>'
        return self._with_cookie(HTMLResponse(text))

    def _challenge(self) -> Response:
        return JSONResponse({"challenge": self._keys.challenge})

    async def _renew(self, request: Request, host: str) -> Response:
        """Gives a page that has proved its renewal key the secrets of this start."""
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


def _bounded(receive: Receive) -> Receive:
    """The same, for bodies that do not say how large they are."""
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > LARGEST_BODY:
            raise HTTPException(413, "That is too large.")
        return message

    return bounded
