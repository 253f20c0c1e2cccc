"""The terminal: its width, its colors, text that fits it, and a pager for long texts."""

import io
import os
import re
import shlex
import shutil
import sys
import textwrap
from typing import TextIO

import click

from commandline.errors import UsageError
from commandline.invocation import as_typed

NARROWEST, WIDEST = 60, 120  # columns; longer lines are hard to read, shorter ones leave no room for numbers
WIDEST_PROSE = 100  # columns, of pages and hints
PLAIN = 80  # columns, where the output is not a terminal
_PAGER_OPTIONS = "-FRX"  # of `less`: a text that fits on the screen is printed, and stays there
_CODE = re.compile(r"`[^`\n]{1,60}`")
# Parts of a program that stay in one line: a return annotation, a text, the axes of an array, a name with its type.
_PARTS = re.compile(r'-> .{1,60}:$|(?<!")"[^"]{1,40}"|\[[^\[\]]{1,40}\]|: [\w.]+')


def width(stream: TextIO | None = None) -> int:
    """Returns the columns to write in: the terminal's, from 60 to 120. 80 where stdout, or the given stream, is not a
    terminal."""
    if not (stream or sys.stdout).isatty():
        return PLAIN
    return min(max(shutil.get_terminal_size((PLAIN, 24)).columns, NARROWEST), WIDEST)


def can_redraw(stream: TextIO) -> bool:
    """Returns whether the stream is a terminal on which text can be replaced."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colors(stream: TextIO | None = None) -> bool:
    """Returns whether to write ANSI styles to stdout, or to the given stream: not where NO_COLOR or TERM=dumb forbid
    it."""
    return can_redraw(stream or sys.stdout) and not os.environ.get("NO_COLOR")


def wrap(text: str, columns: int, indent: int = 0, first: str | None = None) -> list[str]:
    """Returns the text as lines of at most that many columns, with commands as the reader can type them.

    No word is broken, nor is a short piece of code. `first` replaces the indentation of the first line.
    """
    whole = _CODE.sub(lambda match: match[0].replace(" ", "\0"), as_typed(text))
    pad = " " * indent
    lines = textwrap.wrap(
        whole, columns, initial_indent=pad if first is None else first, subsequent_indent=pad,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def fitted(text: str, stream: TextIO | None = None, indent: int = 0) -> str:
    """Returns a paragraph for stdout, or the given stream: wrapped on a terminal, and one line elsewhere, which a
    program can read.

    Lines of a list, which begin with spaces, stay lines.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return as_typed(text)
    columns, paragraph, *others = width(stream), *text.split("\n")
    lines = wrap(paragraph, columns, indent, first="")
    for line in others:
        own = len(line) - len(line.lstrip())
        lines += wrap(line.lstrip(), columns, indent + own)
    return "\n".join(lines)


def echo(text: str, *, indent: int = 0, err: bool = False) -> None:
    """Prints a paragraph, as `fitted` has it."""
    click.echo(fitted(text, sys.stderr if err else sys.stdout, indent), err=err)


def listing(text: str, columns: int) -> list[str]:
    """Returns lines of a program for a screen of that many columns: a longer one is broken between words, but not
    between a name and its type. The rest of a statement is indented further."""
    lines: list[str] = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        rest = indent if line.lstrip().startswith(('"""', "#")) else f"{indent}        "
        whole = _PARTS.sub(lambda match: match[0].replace(" ", "\0"), line.lstrip())
        broken = textwrap.wrap(
            whole, columns, initial_indent=indent, subsequent_indent=rest,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        lines += [part.replace("\0", " ") for part in broken] if len(line) > columns else [line]
    return lines


def markdown(text: str) -> str:
    """Formats Markdown for stdout: laid out for a terminal, and unchanged elsewhere."""
    if not sys.stdout.isatty():
        return text
    from rich.console import Console  # takes 50 ms
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), width=min(width(), WIDEST_PROSE), force_terminal=has_colors())
    with console.capture() as capture:
        console.print(Markdown(text, code_theme="ansi_dark"))
    return "\n".join(line.rstrip() for line in capture.get().split("\n"))


def page(text: str) -> None:
    """Prints a long text: on a terminal through $PAGER or `less`, elsewhere as it is. Raises UsageError."""
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    try:
        shlex.split(os.environ.get("PAGER", ""))
    except ValueError as error:
        raise UsageError(f"PAGER={os.environ['PAGER']} is not a valid command: {error}.") from None
    os.environ.setdefault("LESS", _PAGER_OPTIONS)
    click.echo_via_pager(text.removesuffix("\n"), color=has_colors())
