"""Grading in a notebook: `%load_ext grader.magic`, then `%%grade 07` above a cell, and `%play 07` to see the cell's code at work.
`%grade_hint 07` and `%grade_page 07` show the problem's hints and its page.

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
from grader.course import catalog, imports, page, plays, selection, workspace
from grader.exhibits import Ending, Exhibit, Progress
from grader.judge import notebook, recorded
from grader.judge import submission as submission_
from grader.judge.judge import GradeOptions
from grader.judge.submission import Submission
from grader.play.session import Performance
from grader.report import exhibits_page, exhibits_terminal, html, terminal
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
    ipython.register_magic_function(_friendly(play), "line", "play")
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
        sources = imports.with_imports(
            problem.name, text, submission_.modules_in(folder if folder.is_dir() else Path())
        )
    except submission_.UnreadableSubmissionError as error:
        raise UsageError(str(error)) from None
    submission = _graded[problem.name] = Submission("cell.py", sources)
    report = _resident().grade(problem, submission, GradeOptions())
    played = f"%play {problem.label}"
    text, rendered = terminal.render(report, advises=False, play=played), html.render(report, play=played)
    _display(f"<style>{html.STYLE}</style>{rendered}", "html", text)


def play(line: str) -> None:
    """Shows your code for problem NN at work in a trained model: `%play NN`, or `%play NN TEXT`.

    The code is that of the cell that was graded last for the problem or, if none was, the file in the workspace.
    """
    number, _, text = _number(line).partition(" ")
    problem = catalog.find(number)
    plays.required(problem, text or None)
    submission = _graded.get(problem.name)
    if submission is None:
        try:
            submission = submission_.read(problem, workspace.find(None).file(problem))
        except submission_.UnreadableSubmissionError as error:
            raise UsageError(str(error)) from None
    performance = Performance(problem, submission, _resident(), text.strip() or None)
    line_of_progress = _Line()
    for item in performance:
        if isinstance(item, Progress):
            line_of_progress.say(item.said)
        else:
            _display_exhibits([item], Ending())
    end = performance.ending()
    if end != Ending():
        _display_exhibits([], end)


class _Line:
    """A line below the cell that is written again and again."""

    def __init__(self) -> None:
        self._handle: Any = None

    def say(self, words: str) -> None:
        from IPython.display import display

        shown = {"text/plain": words}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown, raw=True)


def _display_exhibits(exhibits: Sequence[Exhibit], end: Ending) -> None:
    plain = [*map(exhibits_terminal.render, exhibits), *exhibits_terminal.ending(end)]
    style = f"<style>{html.STYLE}</style>"
    _display(style + exhibits_page.article("", exhibits, end), "html", "\n\n".join(plain))


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


_graded: dict[str, Submission] = {}  # the code that was graded last, by problem


@cache
def _resident() -> Resident:
    """The grader that stays ready between cells."""
    resident = Resident()
    atexit.register(resident.close)
    return resident
