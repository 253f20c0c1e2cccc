"""`python -m hosting FOLDER`: starts the service that learners hand in to. The Hub calls it with a class's folder."""

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click
import httpx2
import uvicorn
from jupyterhub.services.auth import HubOAuth
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from tornado.web import HTTPError

from commandline.errors import UsageError
from grader.course import selection
from grader.isolation import child
from grader.problem import Problem
from hosting import app
from hosting.class_folder import ClassFolder
from hosting.lti.launch import Launch, RefusedLaunchError
from hosting.lti.tool import PLATFORMS, Tool
from hosting.marks import Claims
from hosting.sessions import User

_REMEMBERED = 30  # seconds for which the Hub is not asked again about a token


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(folder: Path, options: tuple[str, ...]) -> None:
    """Take in what learners hand in, and grade it with OPTIONS of `grade batch`.

    The Hub says in the environment at which address, and how to ask it about tokens. If the folder has
    lti/platforms.toml, the marks go to these learning platforms.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    selection.select(None, "")
    os.umask(0o077)  # the attempts, the seed and the marks are for this user alone
    place = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    hub, prefix = HubOAuth(cache_max_age=_REMEMBERED), os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    of = ClassFolder(folder.resolve())
    try:
        lti = (tool(of, prefix), claims(hub)) if (of.lti / PLATFORMS).is_file() else None
    except UsageError as error:
        raise click.ClickException(str(error)) from None
    service = app.application(of, identify(hub), HubSignIn(hub), prefix, options, lti)
    # Ends as by Ctrl-C when the Hub that started it was killed: the next one starts its own.
    child.end_with(os.getppid(), lambda: os.kill(os.getpid(), signal.SIGTERM))
    uvicorn.run(service, host=place.hostname or "127.0.0.1", port=place.port or 80, log_level="warning", ws="none")


def identify(hub: HubOAuth) -> app.Identify:
    """Returns the function that asks the Hub whose token it is, and whether it may be used for this service."""

    async def user_of(token: str) -> User | None:
        with _answering():
            user = await hub.user_for_token(token, sync=False)
        if not user or user["kind"] != "user" or not hub.check_scopes(hub.access_scopes, user):
            return None
        return User(str(user["name"]), is_teacher=user.get("admin") is True)

    return user_of


def tool(of: ClassFolder, prefix: str) -> Tool:
    """Returns the tool of a class, below the prefix of this service. Its links lead through the Hub's own sign-in.

    Raises UsageError.
    """
    public = os.environ.get("JUPYTERHUB_PUBLIC_HUB_URL", "").rstrip("/")
    if not public:
        raise UsageError(
            f"{of.lti / PLATFORMS} needs the address that platforms reach: set c.JupyterHub.public_url, or "
            "JUPYTERHUB_PUBLIC_HUB_URL where the Hub does not start this service."
        )
    parts = urlsplit(public)
    link = f"{public}/user-redirect/gpt-kata/problems/"

    async def opened(_: Request, launch: Launch) -> Response:
        raise RefusedLaunchError(
            f"This link is for {launch.problem or 'no problem'}, but does not lead to one. Your teacher can give it an "
            f"address such as {link}01."
        )

    def address(problem: Problem) -> str:
        return f"{link}{problem.label}"

    return Tool(of.lti, f"{parts.scheme}://{parts.netloc}{prefix}lti", opened, address, f"{public}/lti13/oauth_login")


def claims(hub: HubOAuth) -> Claims:
    """Returns the function that asks the Hub with which claims somebody has signed in."""
    http = httpx2.AsyncClient(headers={"Authorization": f"token {hub.api_token}"}, trust_env=False)

    async def claims_of(user: str) -> Any:
        try:
            answer = await http.get(f"{hub.api_url}/users/{quote(user, safe='')}")
        except httpx2.HTTPError as error:
            raise HTTPException(503, "The Hub does not answer, so some marks wait.") from error
        known = answer.json() if answer.is_success else {}
        if answer.status_code == 404:
            return None
        if "auth_state" not in known:
            raise HTTPException(
                503,
                "The Hub does not tell this service who signed in, so some marks wait. Give the service the scopes "
                "admin:auth_state and read:users, and set enable_auth_state.",
            )
        return known["auth_state"]

    return claims_of


class HubSignIn:
    """Signs browsers in at the Hub."""

    def __init__(self, hub: HubOAuth) -> None:
        self._hub = hub

    @property
    def login_url(self) -> str:
        return str(self._hub.login_url)

    async def token(self, code: str) -> str:
        with _answering():
            return str(await self._hub.token_for_code(code, sync=False))


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """Turns an error of the Hub's into an answer."""
    try:
        yield
    except HTTPError as error:
        raise HTTPException(503, "The Hub does not answer.") from error


if __name__ == "__main__":
    main()
