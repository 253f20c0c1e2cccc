"""Renders templates with what every page needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

THEMES = ("light", "dark")

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


def render(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """A page from a template. The theme is the one that the reader chose, else the system's."""
    theme = request.cookies.get("theme", "")
    shared = {
        "theme": theme if theme in THEMES else "",
        "nonce": request.scope["nonce"],
        "path": request.url.path,
    }
    return HTMLResponse(_TEMPLATES.get_template(template).render(shared | dict(values)), status)
