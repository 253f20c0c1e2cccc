"""Grading in a notebook: `%load_ext grader.magic`, then `%%grade 07` above a cell, `%grade_hint 07`, `%grade_page 07`.

The cell is graded in a confined process of its own, with the imports and definitions of earlier cells, as in a notebook that
is handed in. It is not run in the notebook.
"""

import atexit
import re
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

from commandline.errors import CommandError, UsageError
from grader.course import catalog, page, selection, workspace
from grader.judge import notebook, recorded
from grader.judge import submission as submission_
from grader.judge.judge import GradeOptions
from grader.judge.submission import Submission
from grader.report import html, terminal
from grader.resident.resident import Resident


def load_ipython_extension(ipython: Any) -> None:
    """Registers the magics. The course is that of the workspace, unless GRADE_COURSE names another."""
    _friendly(lambda: selection.select(None, workspace.find(None).course))()
    earlier = list[str](ipython.history_manager.input_hist_raw)

    def remember(result: Any) -> None:
        if result.success and result.info is not None:
            earlier.append(result.info.raw_cell)

    ipython.events.register("post_run_cell", remember)
    ipython.register_magic_function(_friendly(lambda line, cell: grade(line, cell, earlier)), "cell", "grade")
    ipython.register_magic_function(_friendly(hint), "line", "grade_hint")
    ipython.register_magic_function(_friendly(show), "line", "grade_page")


def grade(line: str, cell: str, earlier: Sequence[str] = ()) -> None:
    """Grades the cell for problem NN: `%%grade NN`. Course modules are imported from the workspace.

    What counts of it and of the earlier cells is what counts of a notebook that is handed in.
    """
    problem = catalog.find(_number(line))
    recorded.check_gradable(problem)
    folder = workspace.find(None).folder
    text = notebook.of_session(earlier, cell, [entry.name for entry in problem.entries])
    try:
        sources = catalog.with_imports(
            problem.name, text, submission_.modules_in(folder if folder.is_dir() else Path())
        )
    except submission_.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None
    report = _resident().grade(problem, Submission("cell.py", sources), GradeOptions())
    _display(f"<style>{html.STYLE}</style>{html.render(report)}", "html", terminal.render(report, advises=False))


def hint(line: str) -> None:
    """Shows the next hint for problem NN: `%grade_hint NN`."""
    problem = catalog.find(_number(line))
    space, hints = workspace.find(None), page.hints(problem)
    seen = min(space.hints_seen(problem), len(hints) - 1)
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
