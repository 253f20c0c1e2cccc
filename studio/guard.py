"""What every request must show before the studio answers, and what every answer tells the browser.

Other programs and other web pages on this machine can reach the port. So a request needs the cookie that only the address
printed in the terminal sets, the name of this server as its host, and, if it changes anything, a page of the studio as its
origin.
"""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 2 << 20  # bytes; a file of a problem has at most half of that, and JSON escapes some of it
_SAFE_METHODS = ("GET", "HEAD")

HEADERS = {
    "Cache-Control": "no-cache",
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
    """Middleware around the whole application. Puts a fresh `nonce` for style sheets into the scope."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"studio_{port}"  # browsers share cookies between ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["nonce"] = secrets.token_urlsafe(16)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = policy(scope["nonce"])
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        await (refusal or self._app)(scope, _bounded(receive), send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that the application must not see."""
        host = headers.get("host", "")
        if host not in self._hosts:
            return PlainTextResponse("This server answers only to its own name.\n", 421)
        writes = scope["method"] not in _SAFE_METHODS
        if writes and headers.get("origin") != f"http://{host}":
            return PlainTextResponse("Only pages of the studio can change anything.\n", 403)
        if writes and headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("Only pages of the studio can change anything.\n", 403)
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        offered = next((value for name, value in query if name == "token"), None)
        if offered is not None and self._is_token(offered) and not writes:
            return self._admit(scope["path"], [(name, value) for name, value in query if name != "token"])
        if not self._is_token(self._cookie_of(headers)):
            text = "Open the studio at the address that `grade web` printed in your terminal.\n"
            return PlainTextResponse(text, 403)
        if not headers.get("content-length", "0").isdecimal() or int(headers.get("content-length", "0")) > LARGEST_BODY:
            return PlainTextResponse("That is too large.\n", 413)
        return None

    def _admit(self, path: str, query: list[tuple[str, str]]) -> Response:
        """Turns the token of the address into a cookie, and takes it out of the address."""
        # A path that begins with two slashes would lead to another host.
        target = "/" + path.lstrip("/") + (f"?{urlencode(query)}" if query else "")
        response = RedirectResponse(target, 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return response

    def _cookie_of(self, headers: Headers) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return morsel.value if morsel else ""

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())


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
