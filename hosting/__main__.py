"""`python -m hosting FOLDER`: starts the service that learners hand in to. The Hub calls it with a class's folder."""

import logging
import os
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvicorn
from jupyterhub.services.auth import HubAuth
from starlette.exceptions import HTTPException
from tornado.web import HTTPError

from grader.course import selection
from hosting import app
from hosting.class_folder import ClassFolder

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
    service = app.application(
        ClassFolder(folder.resolve()), _identify(HubAuth(cache_max_age=_REMEMBERED)),
        os.environ["JUPYTERHUB_SERVICE_PREFIX"], options,
    )  # fmt: skip
    uvicorn.run(service, host=place.hostname or "127.0.0.1", port=place.port or 80, log_level="warning", ws="none")


def _identify(hub: HubAuth) -> app.Identify:
    """Returns the function that asks the Hub whose token it is, and whether it may be used for this service."""

    async def identify(token: str) -> str:
        try:
            user = await hub.user_for_token(token, sync=False)
        except HTTPError as error:
            raise HTTPException(503, "The Hub does not answer.") from error
        is_user = bool(user) and user["kind"] == "user" and hub.check_scopes(hub.access_scopes, user)
        return str(user["name"]) if is_user else ""

    return identify


if __name__ == "__main__":
    main()
