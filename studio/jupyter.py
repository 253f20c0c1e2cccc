"""The studio inside of a Jupyter server, such as those of JupyterHub and Binder. jupyter-server-proxy finds `setup`
through an entry point, starts `main` when somebody opens the studio, and lets nobody through who is not logged in.

Its address is below the server's own: `/user/ada/gpt-kata/`. There is no port, only a socket in a private folder, and
the server adds a secret to each request, so that no other program of the machine is taken for it.
"""

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from commandline.errors import CommandError
from studio import ports
from studio.guard import PROXY, Front

NAME = "gpt-kata"  # of the entry point, and in the address
_SECRET = "GPT_KATA_PROXY"  # noqa: S105  the name of the environment variable
_START_SECONDS = 60  # on a cold, busy disk


def setup() -> dict[str, Any]:
    """Returns the configuration with which jupyter-server-proxy starts the studio and shows it in its launcher."""
    secret = secrets.token_urlsafe(32)
    return {
        # -P: modules are not imported from the current folder, which holds the user's notebooks.
        "command": [sys.executable, "-P", "-m", "studio.jupyter", "{unix_socket}", "{base_url}"],
        "environment": {_SECRET: secret},
        "request_headers_override": {PROXY: secret},
        "unix_socket": True,
        "absolute_url": True,
        "timeout": _START_SECONDS,
        "launcher_entry": {"title": "GPT Kata", "icon_path": str(Path(__file__).with_name("static") / "icon.svg")},
    }


def main(path: str, base_url: str) -> None:
    """Serves the studio on a Unix socket to a Jupyter server with this base URL. The workspace is that of the current
    folder."""
    from grader.course import selection, workspace
    from studio import server

    front = Front(
        prefix=f"{base_url.rstrip('/')}/{NAME}", secret=os.environ.pop(_SECRET), opens_from="from Jupyter's launcher"
    )
    try:
        space = workspace.find(None)
        selection.select(None, space.course)
        server.serve_proxy(space, Path("runs"), Path(path), front)
    except CommandError as error:
        with ports.unix(Path(path)) as sock:
            server.say(str(error), sock, front)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
