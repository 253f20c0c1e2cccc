"""Runs the studio on this machine: finds a port, prints the address, and ends everything that it started."""

import contextlib
import os
import secrets
import socket
import webbrowser
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType

import click
import uvicorn
from starlette.applications import Starlette

from commandline import files
from commandline.errors import UsageError
from commandline.folders import cache_folder
from grader.course.workspace import Workspace
from studio import app, harness_process
from studio.class_results import ClassResults
from studio.studio import Studio

HOST = "127.0.0.1"
_CONNECTIONS = 128


def serve(space: Workspace, runs: Path, port: int, *, opens_browser: bool) -> None:
    """Serves the studio until Ctrl-C. Creates the workspace if it does not exist. `runs` is the folder of the harness's runs."""
    space.start()
    studio = Studio(space)
    if harness_process.IS_INSTALLED:
        from studio.training_studio import TrainingStudio

        studio = TrainingStudio(space, runs)
    _serve(studio, app.LEARNER, port, opens_browser=opens_browser)


def serve_class(results: Path, port: int, *, opens_browser: bool) -> None:
    """Serves the results of a class until Ctrl-C. Raises UsageError if the folder has none."""
    _serve(ClassResults(results), app.CLASS, port, opens_browser=opens_browser)


def _serve(studio: Studio | ClassResults, pages: Sequence[ModuleType], port: int, *, opens_browser: bool) -> None:
    with _listen(port) as sock:
        port, token = sock.getsockname()[1], _token()
        address = f"http://{HOST}:{port}/?token={token}"

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with studio.running():
                click.echo(address)
                if opens_browser:
                    webbrowser.open(address)
                yield

        config = uvicorn.Config(
            app.application(studio, pages, token, port, lifespan), log_level="critical", access_log=False,
            server_header=False, limit_concurrency=_CONNECTIONS, timeout_graceful_shutdown=2, ws="none",
        )  # fmt: skip
        _Server(config, studio).run(sockets=[sock])


class _Server(uvicorn.Server):
    """Ends the streams of events first: they would keep their connections open."""

    def __init__(self, config: uvicorn.Config, studio: Studio | ClassResults) -> None:
        super().__init__(config)
        self._studio = studio

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._studio.events.close()
        super().handle_exit(sig, frame)


def _listen(port: int) -> socket.socket:
    """A socket on this port, or on another one if it is taken. Only this machine can reach it."""
    for number in (port, 0):
        sock = socket.socket()
        if os.name == "posix":  # elsewhere the option would let two programs share a port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            sock.bind((HOST, number))
            sock.listen()
            return sock
        sock.close()
    raise UsageError(f"No port of {HOST} is free.")


def _token() -> str:
    """The secret of this user's studios. It is kept, so that a page which is open survives a restart."""
    path = cache_folder("GRADE_STUDIO", "studio") / "token"
    with contextlib.suppress(OSError, files.NotRegularFileError):
        if not path.stat().st_mode & 0o077 or os.name != "posix":
            token = files.read_regular(path, 64).decode("ascii", "replace")
            if len(token) == 43:
                return token
    token = secrets.token_urlsafe(32)
    with contextlib.suppress(OSError):  # without a cache folder, each start has its own
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_private(path, token)
    return token


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
