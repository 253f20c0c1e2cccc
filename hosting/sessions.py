"""The browsers of teachers that have signed in at the Hub."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

_SESSION, _STATE = "hand-in-session", "hand-in-state"  # cookies
_MOST = 1000  # sessions


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


@dataclass
class Session:
    """A browser that has signed in.

    Attributes:
        token: The token of the Hub, which the browser never gets.
        form: A secret in each form of the page, which stands for the session when the form is sent.
        said: The answer to the last form, until the page has shown it.
    """

    token: str
    form: str
    said: str = ""


class Sessions:
    """The browsers that have signed in, by the random value of their cookie."""

    def __init__(self, sign_in: SignIn, prefix: str) -> None:
        self._sign_in, self.prefix = sign_in, prefix
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def of(self, request: Request) -> Session | None:
        """Returns the session of a browser; None if it has not signed in."""
        return self._sessions.get(request.cookies.get(_SESSION, ""))

    def of_form(self, secret: str) -> Session | None:
        """Returns the session of the page that a form was on; None if there is none."""
        known = list(self._sessions.values())
        return next((one for one in known if secrets.compare_digest(one.form.encode(), secret.encode())), None)

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
        self._sessions[session] = Session(await self._sign_in.token(code), secrets.token_urlsafe(32))
        if len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        response = RedirectResponse(self.prefix, 302)
        self._set(request, response, _SESSION, session)
        response.delete_cookie(_STATE, path=self.prefix)
        return response

    def _set(self, request: Request, response: Response, name: str, value: str) -> None:
        forwarded = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0]
        response.set_cookie(
            name, value, path=self.prefix, httponly=True, samesite="lax", secure=forwarded == "https"
        )  # lax: a browser comes from the Hub, and with subdomains that is another site
