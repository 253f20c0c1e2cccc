"""Notebooks for learners, in Jupyter, VS Code and Colab: each has the page and the stub of a problem, and a cell that
grades."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog, page, plays, selection
from grader.paths import ROOT
from grader.problem import Problem

PACKAGE = "gpt-kata"
_FORMAT = {"nbformat": 4, "nbformat_minor": 5}  # the first version in which cells have ids
_KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# `%pip` installs into the environment of the kernel, wherever that is.
_INSTALL = """\
# Run this cell first. It installs the course, and says what the grader can confine here.
%pip install --quiet {install}
{course}%load_ext grader.magic
%grade start
"""
_TASK = """\
---
`%page {label}` in a cell shows this page with its drawings. Write your code in the next cell and run it, then run
the cell below, which grades it. `%hint {label}` gives a hint, and `%progress` shows what you have passed.
"""


def export(directory: Path, problems: Sequence[Problem], install: str | None) -> Iterator[str]:
    """Writes a notebook for each problem, named as its module, so that `grade batch` accepts it. Yields lines for the
    terminal.

    Leaves a file that exists alone. `install` is the argument of `%pip install`: the package of the shipped course
    unless given.

    Raises UsageError if a notebook cannot be written, or if the selected course is neither installed under a name nor
    given by `install`.
    """
    course = selection.selected().root
    name = "" if course == ROOT else selection.name_of(course)
    if os.path.isabs(name):
        raise UsageError(f"The course in {name} is not installed, so no notebook can find it; make it a package first.")
    if name and not install:
        raise UsageError(f"Name what installs the course {name} with --install, such as --install 'gpt-kata {name}'.")
    for problem in problems:
        path = directory / f"{problem.name}.ipynb"
        if os.path.lexists(path):
            yield f"kept  {path}: it already exists"
            continue
        files.write(path, json.dumps(notebook(problem, install or PACKAGE, name), indent=1, ensure_ascii=False) + "\n")
        yield f"new   {path}"


def notebook(problem: Problem, install: str, course: str = "") -> dict[str, Any]:
    """Returns the notebook of a problem, as nbformat 4.5 has it. `course` is the name of another course than the
    shipped one."""
    select = f"%env {selection.VARIABLE}={course}\n" if course else ""
    cells = [
        _cell("code", "install", _INSTALL.format(install=install, course=select)),
        _cell("markdown", "page", _page(problem)),
        _cell("markdown", "task", _TASK.format(label=problem.label)),
        _cell("code", "code", catalog.stub_text(problem)),
        _cell("code", "grade", f"%grade {problem.label}"),
    ]
    if plays.exists(problem):
        cells.append(_cell("code", "play", f"%play {problem.label}"))
    colab = {"name": f"{problem.label} {problem.title}", "provenance": []}
    return {"cells": cells, "metadata": {**_KERNEL, "colab": colab}, **_FORMAT}


def _cell(kind: str, name: str, text: str) -> dict[str, Any]:
    source = text.rstrip("\n").splitlines(keepends=True)
    run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source, **run}


def _page(problem: Problem) -> str:
    """Returns the page for a Markdown cell: formulas as MathJax reads them, and drawings as text, which no notebook
    strips."""
    return page.FORMULAS.sub(
        lambda match: "\n\n".join(f"$${line}$$" for line in match[1].strip().splitlines()), page.without_hints(problem)
    )
