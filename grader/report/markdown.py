"""Markdown for a terminal: pages, hints and code."""

import io
from typing import TYPE_CHECKING

from grader.course import formulas

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 100  # columns; longer lines of prose are hard to read


def page(markdown: str, width: int, *, colors: bool) -> str:
    """Markdown laid out in lines of at most `width` columns, with its formulas as text."""
    from rich.markdown import Markdown

    return _printed(Markdown(formulas.blocks_as_text(markdown), code_theme="ansi_dark"), min(width, WIDEST), colors)


def code(text: str, width: int, *, colors: bool) -> str:
    """Python in lines of at most `width` columns."""
    from rich.syntax import Syntax

    return _printed(Syntax(text, "python", theme="ansi_dark", word_wrap=True), width, colors)


def _printed(what: "RenderableType", width: int, colors: bool) -> str:
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=width, force_terminal=colors, color_system="standard" if colors else None
    )
    with console.capture() as capture:
        console.print(what)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))
