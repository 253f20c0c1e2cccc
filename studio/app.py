"""The application: the pages, the files that they use, and an error for everything else."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from commandline.errors import CommandError, UsageError
from grader.cost import page as cost_page
from grader.course.page import EXPLORABLES
from grader.report import html_report, markdown_html
from studio import harness_process
from studio.guard import Front, Guard
from studio.keys import Keys
from studio.pages import (
    change,
    class_results,
    course_map,
    diagnosis,
    experiment,
    lookup,
    open_task,
    practice,
    problem,
    review,
)
from studio.view import render

# Each page is a module with `routes`, and templates of its own.
LEARNER: tuple[ModuleType, ...] = (
    course_map, problem, change, experiment, diagnosis, open_task, practice, review, lookup,
)  # fmt: skip
CLASS = (class_results,)
if harness_process.IS_INSTALLED:
    from studio.pages import playground, run

    LEARNER += (run, playground)
_STATIC = Path(__file__).parent / "static"

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def application(studio: Any, pages: Sequence[ModuleType], keys: Keys, front: Front, lifespan: Lifespan) -> Starlette:
    """Returns the studio as an ASGI application. Its pages share `studio`."""
    app = Starlette(
        routes=[
            *(route for page in pages for route in page.routes),
            Route("/report.css", _report_style),
            *(Route(f"/{path.name}", _file(path)) for path in EXPLORABLES),
            Mount("/static", _StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(Guard, keys=keys, front=front)],
        exception_handlers={HTTPException: _http_error, CommandError: _command_error, Exception: _internal_error},
        lifespan=lifespan,
    )
    app.state.studio = studio
    return app


class _StaticFiles(StaticFiles):
    """Files that hold nothing of the learner's. A browser may keep them, and asks whether they have changed."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def _report_style(_: Request) -> Response:
    return Response(html_report.STYLE + markdown_html.STYLE + cost_page.STYLE, media_type="text/css")


def _file(path: Path) -> Callable[[Request], Response]:
    return lambda _: FileResponse(path)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for nothing else
    words = "There is no such page." if error.status_code == 404 else error.detail
    return _error(request, words, error.status_code)


async def _command_error(request: Request, error: Exception) -> Response:
    return _error(request, str(error), 422 if isinstance(error, UsageError) else 500)


async def _internal_error(request: Request, error: Exception) -> Response:
    return _error(request, f"Internal error (not your fault): {type(error).__name__}: {error}", 500)


def _error(request: Request, words: str, status: int) -> Response:
    """Returns the error as a page for a reader, as JSON for a script."""
    if "text/html" in request.headers.get("accept", ""):
        return render(request, "error.html", {"words": words}, status)
    return JSONResponse({"error": words}, status)
