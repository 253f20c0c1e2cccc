"""Runs the studio: at a port of this machine, whose address it prints, or for a proxy. Ends everything that it
started."""

import contextlib
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

import click
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from grader.course.workspace import Workspace
from studio import app, harness_process, keys, ports
from studio.class_results import ClassResults
from studio.connections import BACKLOG, Connection
from studio.guard import Front
from studio.studio import Studio

if TYPE_CHECKING:
    from studio.hub import Door

DOOR = ".studio.html"
Around = Callable[[ASGIApp], ASGIApp]  # returns what serves an application


def serve(space: Workspace, runs: Path, port: int, *, opens_browser: bool) -> None:
    """Serves the studio until Ctrl-C. Creates the workspace if it does not exist. `runs` is the folder of the harness's
    runs."""
    _serve_on_port(_studio(space, runs), app.LEARNER, space.folder, port, opens_browser=opens_browser)


def serve_class(results: Path, port: int, *, opens_browser: bool) -> None:
    """Serves the results of a class until Ctrl-C. Raises UsageError if the folder has none."""
    _serve_on_port(ClassResults(results), app.CLASS, results, port, opens_browser=opens_browser)


def serve_proxy(space: Workspace, runs: Path, path: Path, front: Front) -> None:
    """Serves the studio to a proxy on a Unix socket with this path, until the process is asked to end."""
    studio = _studio(space, runs)
    with ports.unix(path) as sock:
        _serve(studio, app.LEARNER, [sock], keys.new("proxy", front.prefix), front, lambda: None)


def serve_hub(space: Workspace, runs: Path, sock: socket.socket, door: "Door", every: float) -> None:
    """Serves the studio to a JupyterHub on a socket, until the process is asked to end. Reports its use each `every`
    seconds."""
    studio, own = _studio(space, runs), keys.new("hub", door.front.prefix)
    _serve(studio, app.LEARNER, [sock], own, door.front, lambda: None, door.around, door.reporting(every))


def say(words: str, sock: socket.socket, front: Front, around: Around = lambda app: app) -> None:
    """Answers the next request of the user with an error instead of the studio. What started the program can then
    start it again."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        server.should_exit = front.knows(Headers(scope=scope))
        await PlainTextResponse(f"{words}\n", 500)(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(around(answer), lifespan="off", log_level="critical", ws="none"))
    server.run(sockets=[sock])


def _studio(space: Workspace, runs: Path) -> Studio:
    space.start()
    if not harness_process.IS_INSTALLED:
        return Studio(space)
    from studio.training_studio import TrainingStudio

    return TrainingStudio(space, runs)


def _serve_on_port(
    studio: Studio | ClassResults, pages: Sequence[ModuleType], folder: Path, port: int, *, opens_browser: bool
) -> None:
    with contextlib.ExitStack() as at_the_end:
        sockets = [at_the_end.enter_context(sock) for sock in ports.listen(port)]
        port = sockets[0].getsockname()[1]
        own = keys.new(str(port))
        address = f"http://{ports.HOST}:{port}/?token={own.token}"

        def started() -> None:
            click.echo(address)
            if opens_browser:
                _open_browser(at_the_end.enter_context(_door(folder, address)))

        _serve(studio, pages, sockets, own, Front(port), started)


def _serve(
    studio: Studio | ClassResults,
    pages: Sequence[ModuleType],
    sockets: list[socket.socket],
    own: keys.Keys,
    front: Front,
    started: Callable[[], None],
    around: Around = lambda app: app,
    beside: contextlib.AbstractAsyncContextManager[None] | None = None,
) -> None:
    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with studio.running(), beside or contextlib.nullcontext():
            started()
            yield

    config = uvicorn.Config(
        around(app.application(studio, pages, own, front, lifespan)), log_level="critical", access_log=False,
        server_header=False, http=Connection, backlog=BACKLOG, timeout_graceful_shutdown=2, ws="none",
    )  # fmt: skip
    _Server(config, studio).run(sockets=sockets)


class _Server(uvicorn.Server):
    """Ends the streams of events first: they would keep their connections open."""

    def __init__(self, config: uvicorn.Config, studio: Studio | ClassResults) -> None:
        super().__init__(config)
        self._studio = studio

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._studio.events.close()
        super().handle_exit(sig, frame)


def _open_browser(door: Path | None) -> None:
    if not (door and webbrowser.open(door.as_uri())):
        click.echo("No browser was opened. Open the address above.", err=True)


@contextlib.contextmanager
def _door(folder: Path, address: str) -> Iterator[Path | None]:
    """Yields a file that leads a browser to the address; None if the folder cannot hold one that only this user can
    read.

    Other users can read the command line of a browser, so the address must not be in it.
    """
    path = folder.absolute() / DOOR
    try:
        keys.write_private(path, f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
    except OSError:
        yield None
        return
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
