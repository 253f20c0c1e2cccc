"""The commands of the course as the reader can type them, in the way in which this process was started."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

PROGRAMS = {"grade": "grader", "harness": "harness"}  # each command, and its package
_options: dict[str, list[str]] = {}
# The commands of another process, for which this one writes a text.
_others: ContextVar[Mapping[str, list[str]] | None] = ContextVar("others", default=None)
_COMMAND = re.compile(rf"`({'|'.join(PROGRAMS)})(?=[ `])")


def command(program: str) -> str:
    """Returns the command for a program of the course: its name, if the shell finds this very program by that name.

    Otherwise the command that runs the program from here, such as `.venv/bin/grade`, `uv run grade` or `python -m
    grader`.
    """
    others = _others.get()
    if others is not None:
        return others[program][0]
    started = Path(sys.argv[0])
    if started.name == "__main__.py" and started.parent.name in PROGRAMS.values():
        return f"{python()} -m {PROGRAMS[program]}"
    if started.stem not in PROGRAMS:  # imported by another program
        return program
    if "UV_RUN_RECURSION_DEPTH" in os.environ:  # uv changes PATH for this process only
        return f"uv run {program}"
    if _is_found(program, started.with_name(program + started.suffix)):
        return program
    return shlex.quote(_shorter(started.with_name(program)))


def as_typed(text: str) -> str:
    """Returns the text with each command in backticks, such as `grade list`, as the reader can type it."""

    def typed(match: re.Match[str]) -> str:
        first, *options = _words(match[1])
        has_options = text.startswith(" --", match.end())
        return " ".join(["`" + first, *(() if has_options else options)])

    return _COMMAND.sub(typed, text)


def _words(program: str) -> list[str]:
    others = _others.get()
    return others[program] if others is not None else [command(program), *_options.get(program, ())]


def words() -> dict[str, list[str]]:
    """Returns, for each program, the words to type: its command, and the options that `as_typed` repeats."""
    return {program: _words(program) for program in PROGRAMS}


@contextmanager
def as_typed_in(others: Mapping[str, list[str]]) -> Iterator[None]:
    """Makes this thread write commands, within the context, as the user of another process types them. `others` are the
    `words` of that process."""
    token = _others.set(others)
    try:
        yield
    finally:
        _others.reset(token)


def is_in_notebook() -> bool:
    """Returns whether the reader types commands in the cells of a notebook."""
    return _words("grade")[0].startswith("%")


def keep_options(program: str, **options: str | None) -> None:
    """Makes `as_typed` repeat `options` before the command, such as the workspace that the commands of this process
    work on."""
    _options[program] = [word for name, value in options.items() if value for word in (f"--{name}", shlex.quote(value))]


def install(*packages: str) -> str:
    """Returns the command that installs packages where this process runs. An environment made by uv has no pip of its
    own."""
    wanted = shlex.join(packages)
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(_shorter(Path(sys.executable)))} {wanted}"
    return f"{python()} -m pip install {wanted}"


def python() -> str:
    """Returns the command for the Python that runs this process."""
    for name in ("python", "python3"):
        if _is_found(name, Path(sys.executable)):
            return name
    return shlex.quote(_shorter(Path(sys.executable)))


def _is_found(name: str, path: Path) -> bool:
    """Returns whether the shell finds that file by its name. Follows no links: Pythons of several environments may link
    to one."""
    found = shutil.which(name)
    return found is not None and os.path.abspath(found) == os.path.abspath(path)


def _shorter(path: Path) -> str:
    """Returns the path, relative to the current folder if it is below it."""
    absolute = Path(os.path.abspath(path))
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)
