"""The tool: the routes that platforms send browsers to, and all that belongs to them, in one folder of the server."""

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import jwt
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from grader.course.selection import selected
from grader.problem import Problem
from hosting import forms
from hosting.lti import claims as names
from hosting.lti import deep_linking, registration
from hosting.lti.database import Database
from hosting.lti.enrollments import Enrollments
from hosting.lti.keys import Keys, KeySets
from hosting.lti.launch import Launch, RefusedLaunchError, verify
from hosting.lti.outbox import Outbox
from hosting.lti.services import Services

PLATFORMS, KEY, DATABASE = "platforms.toml", "key.pem", "lti.sqlite"
_LOGIN = 600  # seconds for a platform to answer a login
_SECONDS = 20.0  # for an answer of a platform
_COOKIE = "gpt-kata-lti-"

Opened = Callable[[Request, Launch], Awaitable[Response]]

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


class Tool:
    """The tool at an address such as `https://hub.example.edu/services/hand-in/lti`, which its routes are mounted at.

    `folder` has `platforms.toml`, and gets the key and the database. `opened` answers a browser whose launch was
    verified. `link` gives the address that opens a problem: one of the hub, or that of this tool's own launch. Logins
    for any other address than this tool's go to `hub_login`, where the hub signs people in with the same registration.

    Raises UsageError if a file of the folder cannot be used.
    """

    def __init__(
        self, folder: Path, address: str, opened: Opened, link: Callable[[Problem], str], hub_login: str = ""
    ) -> None:
        self.platforms = registration.read(folder / PLATFORMS)
        self._address, self._hub_login = address.rstrip("/"), hub_login
        self._opened, self._link = opened, link
        self._keys = Keys(folder / KEY)
        self._database = Database(folder / DATABASE)
        self._http = httpx2.AsyncClient(timeout=_SECONDS)  # follows no redirect: it would carry a token elsewhere
        self._key_sets = KeySets(self._http)
        self.services = Services(self.platforms, self._keys, self._http)
        self.enrollments = Enrollments(self._database)
        self.outbox = Outbox(self._database, self.enrollments, self.services)
        self.routes = [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/launch", self._launch, methods=["POST"]),
            Route("/choose", self._choose, methods=["POST"]),
            Route("/keys", self._key_set),
            Route("/canvas.json", self._canvas),
        ]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Sends marks while the context lasts, then closes everything."""
        task = asyncio.create_task(self.outbox.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._http.aclose()
            self.close()

    def close(self) -> None:
        """Closes the database, so that another process may open it."""
        self._database.close()

    async def _login(self, request: Request) -> Response:
        """Sends the browser to the platform that began a login. What the platform must return is in the state, and in a
        cookie, so that nobody can make another's browser take their own launch."""
        values = dict(request.query_params) if request.method == "GET" else dict(await forms.fields(request))
        target = values.get("target_link_uri", "")
        if not self._is_own(target) and self._hub_login:
            return RedirectResponse(f"{self._hub_login}?{urlencode(values)}", 302)
        issuer, client_id = values.get("iss", ""), values.get("client_id", "")
        platform = registration.find(self.platforms, issuer, client_id)
        if platform is None:
            return _refused(
                f"{issuer!r} with the client id {client_id!r} is not registered here. The administrator of this server "
                f"can add it to {PLATFORMS}."
            )
        if not self._is_own(target) or not values.get("login_hint"):
            return _refused(f"{target!r} is not an address of this tool. Open it from a link in your course.")
        nonce = secrets.token_urlsafe(32)
        state = self._keys.sign({"aud": self._own("launch"), "nonce": nonce, "platform": platform.name}, _LOGIN)
        question = {
            "scope": "openid", "response_type": "id_token", "response_mode": "form_post", "prompt": "none",
            "client_id": platform.client_id, "redirect_uri": self._own("launch"), "state": state, "nonce": nonce,
            "login_hint": values["login_hint"],
        }  # fmt: skip
        if hint := values.get("lti_message_hint"):
            question["lti_message_hint"] = hint
        response = RedirectResponse(_with_query(platform.authorization, question), 302)
        response.headers.append("Set-Cookie", self._cookie(nonce))
        return response

    async def _launch(self, request: Request) -> Response:
        values = dict(await forms.fields(request))
        try:
            launch = await self._verified(request, values)
            if launch.selection is None:
                return await self._opened(request, launch)
            if not launch.is_teacher:
                raise RefusedLaunchError("Only teachers of a course can add problems to it.")
        except RefusedLaunchError as error:
            return _refused(str(error))
        return _page(
            "problems.html",
            launch.selection.return_url,
            parts=deep_linking.by_part(),
            several=launch.selection.several,
            ticket=deep_linking.ticket(launch, self._keys, self._own("choose")),
            address=self._own("choose"),
        )

    async def _verified(self, request: Request, values: dict[str, str]) -> Launch:
        if "error" in values:
            raise RefusedLaunchError(
                f"Your course did not sign you in: {values.get('error_description') or values['error']}."
            )
        try:
            state = self._keys.own(values.get("state", ""), self._own("launch"))
            platform = next(one for one in self.platforms if one.name == state["platform"])
            nonce = str(state["nonce"])
        except (jwt.PyJWTError, KeyError, StopIteration):
            raise RefusedLaunchError("This login is too old. Open the link in your course again.") from None
        if not hmac.compare_digest(request.cookies.get(_cookie_name(nonce), "").encode(), nonce.encode()):
            raise RefusedLaunchError(
                "Your browser did not send this tool's cookie. Open the link in a new window; if it fails there, too, "
                "allow cookies for this site."
            )
        launch = await verify(values.get("id_token", ""), nonce, platform, self._key_sets)
        if not self._database.use_once(nonce, _LOGIN):
            raise RefusedLaunchError("This launch was used before. Open the link in your course again.")
        return launch

    async def _choose(self, request: Request) -> Response:
        values = await forms.fields(request)
        chosen = [value for name, value in values if name == "problem"]
        try:
            choice = deep_linking.choose(
                dict(values).get("ticket", ""), chosen, self._keys, self._own("choose"),
                {platform.name: platform for platform in self.platforms}, self._link,
            )  # fmt: skip
        except RefusedLaunchError as error:
            return _refused(str(error))
        return _page("chosen.html", choice.address, choice=choice)

    async def _key_set(self, request: Request) -> Response:
        return JSONResponse({"keys": [self._keys.public]}, headers={"Cache-Control": "max-age=600"})

    async def _canvas(self, request: Request) -> Response:
        """The settings of a developer key in Canvas, which it reads from here."""
        launch = self._own("launch")
        placements = [
            {
                "placement": name,
                "message_type": names.CHOOSES_LINKS,
                "target_link_uri": launch,
                "text": selected().title,
            }
            for name in ("assignment_selection", "link_selection")
        ]
        return JSONResponse({
            "title": selected().title,
            "description": "Problems that are graded, with marks in the gradebook.",
            "oidc_initiation_url": self._own("login"),
            "target_link_uri": launch,
            "public_jwk_url": self._own("keys"),
            "scopes": [*names.GRADE_SCOPES, names.MEMBERSHIP_READ],
            "extensions": [
                {
                    "platform": "canvas.instructure.com",
                    "domain": urlsplit(self._address).hostname,
                    "tool_id": "gpt-kata",
                    "privacy_level": "public",
                    "settings": {"text": selected().title, "placements": placements},
                }
            ],
        })  # fmt: skip

    def _own(self, name: str) -> str:
        return f"{self._address}/{name}"

    def _is_own(self, address: str) -> bool:
        return address == self._address or address.startswith((f"{self._address}/", f"{self._address}?"))

    def _cookie(self, nonce: str) -> str:
        """Returns a cookie that a browser also sends with a form from the platform, in whose frame the tool may be."""
        parts = urlsplit(self._address)
        where = f"Path={parts.path or '/'}; Max-Age={_LOGIN}; HttpOnly"
        # Between two ports of one machine, without TLS, a form is no foreign one.
        kind = "SameSite=None; Secure; Partitioned" if parts.scheme == "https" else "SameSite=Lax"
        return f"{_cookie_name(nonce)}={nonce}; {where}; {kind}"


def _cookie_name(nonce: str) -> str:
    return f"{_COOKIE}{nonce[:8]}"  # two tabs may log in at once


def _with_query(address: str, values: dict[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(values)}"


def _page(template: str, frame: str, **values: Any) -> Response:
    """Returns a page that only the platform may show in a frame."""
    nonce = secrets.token_urlsafe(16)
    parts = urlsplit(frame)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; base-uri 'none'; "
        f"frame-ancestors {parts.scheme}://{parts.netloc}"
    )
    html = _TEMPLATES.get_template(template).render(nonce=nonce, course=selected().title, **values)
    return HTMLResponse(html, headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"})


def _refused(sentence: str) -> Response:
    html = _TEMPLATES.get_template("refused.html").render(sentence=sentence, course=selected().title)
    return HTMLResponse(html, 403, {"Content-Security-Policy": "default-src 'none'", "Cache-Control": "no-store"})
