"""Grading in a notebook. `%load_ext grader.magic` adds magics that need neither a terminal nor a clone:

    %grade start [DIR]   create a workspace; it keeps your progress and the solutions that passed
    %page 01             read the page of a problem
    %%grade 01           grade the cell below; `%grade 01` grades what the cells before have defined
    %hint 01             the next hint
    %play 01 [TEXT]      see the cell that was graded last at work in a trained model
    %%cost 01            count what the cell below costs; `%%cost f x: f32[1024,64]` counts a function of it
    %progress            the problems, with points and your progress

`%grade` also runs the other commands for learners, such as `%grade next` and `%grade doctor`.

The code is graded in a confined process of its own, with the imports and definitions of earlier cells, as in a notebook
that is handed in. A cell with `%%grade` is not run in the notebook. The process uses the CPU and leaves a GPU to the
notebook.
"""

import atexit
import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

import click

from commandline import files, invocation
from commandline.errors import CommandError, UsageError
from commandline.invocation import as_typed
from commandline.text import counted
from grader.cli import doctor, learner
from grader.cost import function
from grader.cost import page as cost_page
from grader.cost.statement import Statement
from grader.course import catalog, imports, page, plays, selection, workspace
from grader.course.workspace import Workspace
from grader.errors import WorkerStartError
from grader.exhibits import Ending, Exhibit, Progress
from grader.isolation.level import Level
from grader.judge import bundled_outputs, notebook, statements
from grader.judge import submission as submission_
from grader.judge.judge import Listener
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.play.play_session import Performance
from grader.problem import Problem
from grader.report import exhibits_page, exhibits_terminal, html_report, markdown_html, terminal
from grader.resident import grade_file
from grader.resident.resident import NewCodeError, Resident

# The commands of `grade` that `%grade` runs as they are. The others need a terminal or another process.
_COMMANDS = ("list", "next", "reset", "solution", "certificate", "doctor")

_SIGNATURE = "# Saved from a notebook, where it passed."


def load_ipython_extension(ipython: Any) -> None:
    """Registers the magics and says what confines the code.

    The course is that of the workspace, unless GRADE_COURSE names another. IPython has a `%page` of its own, which
    shows an object in a pager. Learners need pages more often, so the one of the course takes its place until
    `%unload_ext`.
    """
    magics = _Magics(ipython)
    ipython.grade_magics, ipython.grade_replaced = magics, ipython.find_line_magic("page")
    ipython.events.register("post_run_cell", magics.remember)
    ipython.register_magic_function(_friendly(magics.grade), "line_cell", "grade")
    ipython.register_magic_function(_friendly(magics.cost), "cell", "cost")
    lines = {"page": magics.page, "hint": magics.hint, "play": magics.play, "progress": magics.progress}
    old_names = {"grade_page": magics.page, "grade_hint": magics.hint}
    for name, magic in (lines | old_names).items():
        ipython.register_magic_function(_friendly(magic), "line", name)
    _friendly(magics.begin)()


def unload_ipython_extension(ipython: Any) -> None:
    """Ends the processes, and gives `%page` back. The other magics remain until the kernel ends."""
    ipython.events.unregister("post_run_cell", ipython.grade_magics.remember)
    ipython.grade_magics.close()
    ipython.register_magic_function(ipython.grade_replaced, "line", "page")


class _Magics:
    """The magics of one kernel, and what they share: the workspace, the cells that ran, and a resident judge."""

    def __init__(self, ipython: Any) -> None:
        self._folder: str | None = None  # that `%grade start DIR` named
        self._cells = list[str](ipython.history_manager.input_hist_raw)
        self._graded: dict[str, Submission] = {}  # the code that was graded last, by problem
        self._routes: dict[str, Callable[[str], None]] = {
            "start": self._start, "problem": self._grade_file, "show": self.page, "hint": self.hint, "play": self.play,
        }  # fmt: skip

    def begin(self) -> None:
        """Says what confines the code here, and where the workspace is."""
        selection.select(None, workspace.find(None).course)
        try:
            isolation = doctor.measured(self._resident)
        except WorkerStartError as error:
            raise UsageError(f"Nothing can be graded here. {error}") from None
        if isolation.level is Level.STRICT:
            print(f"Your code is graded in a confined process, on the CPU. Isolation: {isolation.level}.")
        else:
            missing = ", ".join(isolation.missing) or f"protection ({', '.join(isolation.not_stopped)})"
            print(
                as_typed(
                    f"Your code is graded in a process of its own, on the CPU. Isolation: {isolation.level}, without "
                    f"{missing}. {doctor.COST} `grade doctor` says more."
                )
            )
        if self._space.folder.is_dir():
            self._use(self._space)
            print(f"Workspace: {self._space.folder.resolve()}")
        else:
            print(as_typed("There is no workspace yet. `grade start` creates one, which keeps your progress."))

    def close(self) -> None:
        """Ends the processes."""
        if "_resident" in vars(self):
            self._resident.close()
            del self._resident

    def remember(self, result: Any) -> None:
        """Takes note of a cell that ran without an error."""
        if result.success and result.info is not None:
            self._cells.append(result.info.raw_cell)

    def grade(self, line: str, cell: str | None = None) -> None:
        """Grades the cell for problem NN: `%%grade NN`. `%grade NN` grades what the cells before have defined.

        What counts of the cells is what counts of a notebook that is handed in. Course modules are imported from the
        workspace, which gets the code if it passes. Instead of NN, a command for learners: `%grade start [DIR]`,
        `%grade next`.
        """
        try:
            word, *rest = shlex.split(line)
        except ValueError as error:
            if line.strip():
                raise UsageError(f"{line.strip()} cannot be read: {error}.") from None
            raise UsageError("Name a problem, such as `grade 01`, or a command, such as `grade start`.") from None
        if cell is None and word in self._routes:
            self._routes[word](line.partition(word)[2])
        elif cell is None and word in _COMMANDS:
            self._command(word, *rest)
        elif cell is None and word in learner.main.list_commands(None):  # type: ignore[arg-type]
            raise UsageError(f"{word} is not for a cell: run it in a terminal, or as {_in_shell('grade')} {word}.")
        else:
            self._grade_cell(catalog.find(line.strip()), cell or "")

    def page(self, line: str) -> None:
        """Shows the page of problem NN: `%page NN`."""
        problem = catalog.find(_number(line))
        _display(markdown_html.article(problem), page.as_text(page.without_hints(problem)))

    def hint(self, line: str) -> None:
        """Shows the next hint for problem NN: `%hint NN`."""
        problem = catalog.find(_number(line))
        space, hints = self._space, page.hints(problem)
        number = min(space.hints_seen(problem) + 1, len(hints))
        shown = f"**Hint {number} of {len(hints)}.** {hints[number - 1]}"
        _display(
            f"<style>{markdown_html.STYLE}</style><div class='page alone'>{markdown_html.to_html(shown)}</div>",
            page.as_text(shown),
        )
        if number == len(hints) and catalog.shows_solution(problem):
            print(as_typed(f"This is the last hint. `grade solution {problem.label} --give-up` shows the answer."))
        if not space.folder.is_dir():
            print(as_typed("Not recorded: there is no workspace. `grade start` creates one."))
        space.remember(problem, hints=number)

    def play(self, line: str) -> None:
        """Shows your code for problem NN at work in a trained model: `%play NN`, or `%play NN TEXT`.

        The code is that of the cell that was graded last for the problem or, if none was, the file in the workspace.
        """
        number, _, text = _number(line).partition(" ")
        problem = catalog.find(number)
        plays.required(problem, text or None)
        submission = self._graded.get(problem.name) or self._file(problem)
        performance = Performance(problem, submission, self._resident, text.strip() or None)
        line_of_progress = _Line()
        for item in performance:
            if isinstance(item, Progress):
                line_of_progress.say(item.said)
            else:
                _display_exhibits([item], Ending())
        end = performance.ending()
        if end != Ending():
            _display_exhibits([], end)

    def cost(self, line: str, cell: str) -> None:
        """Counts what the cell costs, with the definitions of the cells before: `%%cost NN` for a problem, or `%%cost f
        x: f32[1024,64], n: 3` for the function `f` with these arguments."""
        word, _, given = line.strip().partition(" ")
        if not given:
            self._count(catalog.find(_number(line)), cell)
            return
        with function.as_problem(word, given) as problem:
            self._count(problem, cell)

    def _count(self, problem: Problem, cell: str) -> None:
        text = notebook.of_session(self._cells, cell, [entry.name for entry in problem.entries])
        try:
            modules = submission_.modules_in(self._space.folder if self._space.folder.is_dir() else Path())
            source = Submission("a cell", imports.with_imports(problem.name, text, modules))
        except submission_.UnreadableSubmissionError as error:
            raise UsageError(str(error)) from None
        statement = Statement.of(problem, source, self._resident)
        shown = f"<style>{html_report.STYLE}{cost_page.STYLE}</style>{cost_page.article(statement)}"
        _display(shown, click.unstyle(statement.text()))

    def progress(self, line: str) -> None:
        """Shows the problems by part, with points and your progress: `%progress`, or `%progress WORDS`."""
        self._command("list", *line.split())

    @cached_property
    def _resident(self) -> Resident:
        """The grader that stays ready between cells."""
        resident = Resident()
        atexit.register(resident.close)
        return resident

    @property
    def _space(self) -> Workspace:
        return workspace.find(self._folder)

    def _use(self, space: Workspace) -> None:
        """Lets the notebook import the solutions in the workspace, as the files there can."""
        if (folder := str(space.folder.resolve())) not in sys.path:
            sys.path.append(folder)

    def _start(self, rest: str) -> None:
        """Creates the workspace, or completes it after an update."""
        words = shlex.split(rest)
        if len(words) > 1:
            raise UsageError("Name one folder, such as `grade start attempts`.")
        space = Workspace(Path(words[0]).expanduser()) if words else self._space
        created, kept = space.start()
        self._folder = str(space.folder.resolve())
        self._use(space)
        problems = catalog.problems()
        print(
            f"Workspace: {self._folder}, with {counted(len(problems), 'problem')}{'' if created else ', up to date'}."
        )
        for path in kept:
            print(f"kept  {path}: you may have edited it. To get the new page, delete it and start again.")
        first = space.next_problem() or problems[0]
        print(
            f"Next: read %page {first.label}, write your code in a cell, and grade it with %%grade {first.label} above "
            "it."
        )

    def _grade_file(self, rest: str) -> None:
        """Grades the file in the workspace."""
        problem = catalog.find(_number(rest))
        digest = self._space.digest(problem)
        grade_file.remember(self._space, self._verdict(problem, self._file(problem)), digest)

    def _file(self, problem: Problem) -> Submission:
        try:
            return submission_.read(problem, self._space.file(problem))
        except submission_.UnreadableSubmissionError as error:
            raise UsageError(str(error)) from None

    def _grade_cell(self, problem: Problem, cell: str) -> None:
        """Grades a cell, and adds the code to the workspace if it passes."""
        entries = [entry.name for entry in problem.entries]
        text = notebook.of_session(self._cells, cell, entries)
        if not statements.defines(text, entries):
            names = " or ".join(f"`{name}`" for name in entries)
            raise UsageError(f"No cell that ran without an error defines {names}. Run your code, then grade it.")
        space = self._space
        try:
            modules = submission_.modules_in(space.folder if space.folder.is_dir() else Path())
            sources = imports.with_imports(problem.name, text, modules)
        except submission_.UnreadableSubmissionError as error:
            raise UsageError(str(error)) from None
        report = self._verdict(problem, Submission("a cell", sources))  # reports say: write `f` in a cell
        if not space.folder.is_dir():
            if report.verdict is Verdict.PASS:
                print(as_typed("Not recorded: there is no workspace. `grade start` creates one."))
            return
        digest = workspace.digest_of(sources)
        if report.verdict is Verdict.PASS:
            self._save(problem, text)
            digest = space.digest(problem)
        grade_file.remember(space, report, digest)

    def _save(self, problem: Problem, text: str) -> None:
        """Writes what passed to the workspace. What somebody else wrote there is kept beside it."""
        path = self._space.file(problem)
        with contextlib.suppress(OSError, files.NotRegularFileError, UnicodeDecodeError):
            if _is_signed(files.read_regular(path, submission_.MAX_SIZE).decode()):
                files.replace(path, _signed(text))
        if kept := self._space.put(problem, _signed(text)):
            print(f"kept  {kept}: the file before")
        sys.modules.pop(problem.name, None)  # the next import in the notebook takes the new one

    def _verdict(self, problem: Problem, submission: Submission) -> Report:
        """Grades, and displays the report."""
        bundled_outputs.check_gradable(problem)
        self._graded[problem.name] = submission
        line_of_progress = _Line()
        say = line_of_progress.say if problem.long_runs else lambda words: None
        report = self._resident.grade(problem, submission, listener=Listener(say))
        played = f"%play {problem.label}"
        article = html_report.render(report, play=played)
        _display(f"<style>{html_report.STYLE}</style>{article}", terminal.render(report, advises=False, play=played))
        return report

    def _command(self, *words: str) -> None:
        """Runs a command of `grade` in this process. It prints its own errors."""
        options = ["--workspace", self._folder] if self._folder else []
        with contextlib.suppress(SystemExit):
            learner.main([*options, *words], prog_name="%grade")


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
    _display(f"<style>{html_report.STYLE}</style>{exhibits_page.article('', exhibits, end)}", "\n\n".join(plain))


def _signed(text: str) -> str:
    """The text of a file that is saved from a cell, with a line that says so as long as nobody edits the file."""
    return f"{_SIGNATURE} {workspace.digest_of({'': text})}\n{text}"


def _is_signed(text: str) -> bool:
    return text == _signed(text.partition("\n")[2])


def _in_shell(program: str) -> str:
    """Returns the command for a program of the course in a cell, in a process of its own."""
    name = program if shutil.which(program) else f"{invocation.python()} -m {invocation.PROGRAMS[program]}"
    return f"!{name}"


def _number(line: str) -> str:
    if not line.strip():
        raise UsageError("Name a problem, such as 07.")
    return line.strip()


def _display(content: str, plain: str) -> None:
    from IPython.display import display

    display({"text/html": content, "text/plain": plain}, raw=True)  # type: ignore[no-untyped-call]


def _friendly(magic: Callable[..., None]) -> Callable[..., None]:
    """The magic with every error as one sentence, and commands in sentences as they are typed here."""

    @wraps(magic)
    def friendly(*args: str) -> None:
        with invocation.as_typed_in({"grade": ["%grade"], "harness": [_in_shell("harness")]}):
            try:
                magic(*args)
            except NewCodeError:
                print("grade: The course or its packages have changed. Restart the kernel.")
            except CommandError as error:
                print(f"grade: {as_typed(str(error))}")
            except KeyboardInterrupt:
                print("Interrupted.")
            except Exception as error:
                if os.environ.get("GRADE_DEBUG"):
                    raise
                print(f"grade: internal error (not your fault): {type(error).__name__}: {error}")
                print("Please report it with its traceback, which %env GRADE_DEBUG=1 shows.")

    return friendly
