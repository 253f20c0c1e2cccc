"""Grading in a notebook: `%load_ext grader.magic`, then `%%grade 07` above a cell, `%grade_hint 07`, `%grade_page 07`.

The cell is graded in a confined process of its own, like a file. It is not run in the notebook.
"""

import atexit
import re
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from commandline.errors import CommandError, UsageError
from grader.course import catalog, page, selection, workspace
from grader.course.workspace import Progress
from grader.judge import recorded
from grader.judge import submission as submission_
from grader.judge.judge import GradeOptions
from grader.judge.submission import Submission
from grader.report import html, terminal
from grader.resident.resident import Resident


def load_ipython_extension(ipython: Any) -> None:
    """Registers the magics. The course is that of the workspace, unless GRADE_COURSE names another."""
    _friendly(lambda: selection.select(None, workspace.find(None).course))()
    ipython.register_magic_function(_friendly(grade), "cell", "grade")
    ipython.register_magic_function(_friendly(hint), "line", "grade_hint")
    ipython.register_magic_function(_friendly(show), "line", "grade_page")


def grade(line: str, cell: str) -> None:
    """Grades the cell as a file for problem NN: `%%grade NN`. Course modules are imported from the workspace."""
    problem = catalog.find(_number(line))
    recorded.check_gradable(problem)
    folder = workspace.find(None).folder
    try:
        sources = catalog.with_imports(
            problem.name, cell, submission_.modules_in(folder if folder.is_dir() else Path())
        )
    except submission_.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None
    report = _resident().grade(problem, Submission("cell.py", sources), GradeOptions())
    _display(f"<style>{html.STYLE}</style>{html.render(report)}", "html", terminal.render(report, advises=False))


def hint(line: str) -> None:
    """Shows the next hint for problem NN: `%grade_hint NN`."""
    problem = catalog.find(_number(line))
    space, hints = workspace.find(None), page.hints(problem)
    seen = min(space.progress().get(problem.name, Progress()).hints, len(hints) - 1)
    _display(f"**Hint {seen + 1} of {len(hints)}.** {hints[seen]}", "markdown", hints[seen])
    space.remember(problem, hints=seen + 1)


def show(line: str) -> None:
    """Shows the page of problem NN: `%grade_page NN`."""
    text = page.without_hints(catalog.find(_number(line)))
    formulas = re.sub(r"^```math\n(.*?)^```$", r"$$\n\1$$", text, flags=re.MULTILINE | re.DOTALL)
    _display(formulas, "markdown", text)


def _number(line: str) -> str:
    if not line.strip():
        raise UsageError("Name a problem, such as 07.")
    return line.strip()


def _display(content: str, kind: str, plain: str) -> None:
    from IPython.display import display

    display({f"text/{kind}": content, "text/plain": plain}, raw=True)  # type: ignore[no-untyped-call]


def _friendly(magic: Callable[..., None]) -> Callable[..., None]:
    """The magic with the user's mistakes as one sentence."""

    @wraps(magic)
    def friendly(*args: str) -> None:
        try:
            magic(*args)
        except CommandError as error:
            print(f"grade: {error}")

    return friendly


@cache
def _resident() -> Resident:
    """The grader that stays ready between cells."""
    resident = Resident()
    atexit.register(resident.close)
    return resident
