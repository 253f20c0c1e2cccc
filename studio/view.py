"""The parts that pages share: templates with what every page needs, requests that they read, numbers in addresses."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from grader.course import catalog, glossary, tasks
from grader.course.scores import Part, Told
from grader.course.selection import selected
from grader.course.workspace import Workspace
from grader.problem import Problem
from grader.report import html_report, markdown_html
from grader.task import Task
from studio import harness_process

T = TypeVar("T", bound=Task)
THEMES = ("light", "dark")

_TEMPLATES = Environment(
    loader=FileSystemLoader([Path(__file__).parent / "templates", html_report.TEMPLATES]),
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


def render(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Returns a page from a template. The theme is the one that the reader chose, else the system's."""
    theme = request.cookies.get("theme", "")
    shared = {
        "theme": theme if theme in THEMES else "",
        "nonce": request.scope["nonce"],
        "renewal": request.scope["renewal"],
        "root": request.scope["root_path"],
        "prefix": request.scope["prefix"],
        "opens_from": request.scope["opens_from"],
        "path": request.url.path.removeprefix(request.scope["root_path"]),
        "course": selected().title,
        "has_runs": harness_process.IS_INSTALLED,
    }
    return HTMLResponse(_TEMPLATES.get_template(template).render(shared | dict(values)), status)


def fragment(request: Request, template: str, values: Mapping[str, Any]) -> str:
    """Returns a part of a page, to replace that part while the page is open."""
    return _TEMPLATES.get_template(template).render({"root": request.scope["root_path"], **values})


def page_html(request: Request, markdown: str) -> str:
    """Returns the HTML of a problem's page, with links to the glossary."""
    return markdown_html.to_html(glossary.linked(markdown, f"{request.scope['root_path']}/glossary"))


async def read_json(request: Request, **kinds: type) -> dict[str, Any]:
    """Returns the body, which must be an object with these keys and kinds of values."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or any(type(body.get(name)) is not kind for name, kind in kinds.items()):
        raise HTTPException(400, "The request is not what the studio's pages send.")
    return body


def problem_at(request: Request) -> Problem:
    """Returns the problem whose two digits the address names. Raises HTTPException 404 if there is none."""
    number = request.path_params["number"]
    name = next((name for name in catalog.names() if name.number == number), None)
    if name is None:
        raise HTTPException(404)
    return catalog.load(name)


def task_at(request: Request, kind: type[T]) -> tuple[Workspace, T]:
    """Returns the workspace, and the open task that the address names. Raises HTTPException 404 if there is none of
    this kind."""
    name = request.path_params["name"]
    task = tasks.find(name) if name in tasks.names() else None
    if not isinstance(task, kind):
        raise HTTPException(404)
    return request.app.state.studio.space, task


def sentences(told: Told) -> list[str]:
    """Returns what a step in an open task comes to, a paragraph each."""
    return [f"{block.points}: {block.what}" if isinstance(block, Part) else str(block) for block in told.blocks]


class _Number(Convertor[int]):
    """A number that SQLite can hold. The convertor of Starlette takes any."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())
