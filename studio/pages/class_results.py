"""The results of a class: the page that `grade batch` writes as summary.html, kept up to date while a batch runs."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from grader.batch import class_page
from studio.class_results import TOPIC, ClassResults
from studio.view import render


def page(request: Request) -> Response:
    """Returns the page."""
    results = _of(request)
    return render(
        request, "class_results.html", {"folder": results.folder.resolve().name, "article": results.article()}
    )


def article(request: Request) -> Response:
    """Returns the part that changes."""
    return HTMLResponse(_of(request).article())


async def events(request: Request) -> Response:
    """Streams an event when there are new results, and one at first: there may be some since the page was made."""
    return _of(request).events.stream(TOPIC, ("changed", {}))


def _style(_: Request) -> Response:
    return Response(class_page.STYLE, media_type="text/css")


def _script(_: Request) -> Response:
    return Response(class_page.SCRIPT, media_type="text/javascript")


def _of(request: Request) -> ClassResults:
    results: ClassResults = request.app.state.studio
    return results


routes = [
    Route("/", page),
    Route("/article", article),
    Route("/events", events),
    Route("/class.css", _style),
    Route("/class.js", _script),
]
