"""The glossary of the course, to which the pages of the problems link."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from grader.course import glossary
from grader.report.markdown_html import to_html
from studio.view import render


def page(request: Request) -> Response:
    """Returns the page. A course may have none."""
    if not glossary.entries():
        raise HTTPException(404)
    root = request.scope["root_path"]
    text = glossary.as_page(lambda name: f"{root}/problems/{name.label}")
    return render(request, "glossary.html", {"title": glossary.TITLE, "page": to_html(text)})


routes = [Route("/glossary", page)]
