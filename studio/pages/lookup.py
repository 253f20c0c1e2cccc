"""What the course looks things up in: the glossary, to which the pages of the problems link, and the models of
today."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from grader.course import glossary, models
from grader.report.markdown_html import to_html
from studio.studio import Studio
from studio.view import render


def glossary_page(request: Request) -> Response:
    """Returns the page. A course may have none."""
    if not glossary.entries():
        raise HTTPException(404)
    root = request.scope["root_path"]
    text = glossary.as_page(lambda name: f"{root}/problems/{name.label}")
    return render(request, "lookup.html", {"title": glossary.TITLE, "page": to_html(text)})


def models_page(request: Request) -> Response:
    """Returns the page of the models, with what the learner knows ticked. A course may have none."""
    if not models.every():
        raise HTTPException(404)
    studio: Studio = request.app.state.studio
    root = request.scope["root_path"]
    passed = {name for name, standing in studio.space.standings().items() if standing.passed}
    text = models.as_page(lambda name: f"{root}/problems/{name.label}", passed)
    return render(request, "lookup.html", {"title": models.TITLE, "page": to_html(text)})


routes = [Route("/glossary", glossary_page), Route("/models", models_page)]
