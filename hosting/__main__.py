"""`python -m hosting FOLDER`: starts the service that learners hand in to. The Hub calls it with a class's folder."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvicorn
from jupyterhub.services.auth import HubOAuth
from starlette.exceptions import HTTPException
from tornado.web import HTTPError

from grader.course import selection
from hosting import app
from hosting.class_folder import ClassFolder
from hosting.teachers import User

_REMEMBERED = 30  # seconds for which the Hub is not asked again about a token


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(folder: Path, options: tuple[str, ...]) -> None:
    """Take in what learners hand in, and grade it with OPTIONS of `grade batch`.

    The Hub says in the environment at which address, and how to ask it about tokens.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    selection.select(None, "")
    os.umask(0o077)  # the attempts, the seed and the marks are for this user alone
    place = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    hub, prefix = HubOAuth(cache_max_age=_REMEMBERED), os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    service = app.application(ClassFolder(folder.resolve()), identify(hub), HubSignIn(hub), prefix, options)
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
