"""The information that an editor shows about a learner's file: the verdict at a line, the inputs and output of an
entry, points. Independent of the protocol."""

import ast
import contextlib
import tempfile
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from commandline import files
from commandline.errors import UsageError
from grader.course import catalog, imports, log, page, plays, selection
from grader.course.workspace import Workspace
from grader.exhibits import Progress
from grader.isolation.sandbox import Workers
from grader.judge import submission
from grader.judge.judge import Listener
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission, UnreadableSubmissionError
from grader.judge.verdict import Report
from grader.play.play_session import Performance
from grader.problem import Problem
from grader.report import exhibits_page, findings, html_report, script, source_lines
from grader.resident import client, grade_file
from grader.resident.grade_queue import Dropped, Failed, Graded, GradeQueue, News, Request
from grader.resident.resident import Resident


class Learner:
    """The files of learners that an editor has open. Methods raise CommandError; `close` it at the end."""

    def __init__(self) -> None:
        self._judge = _Judge()
        self._queue = GradeQueue(self._judge)
        self._asked: dict[Path, Future[Report | None]] = {}  # the latest grading of each file
        self._reports: dict[Path, Report] = {}
        self._hints: dict[Path, int] = {}  # the number of hints shown
        self._pages: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        if self._pages:
            self._pages.cleanup()
        self._queue.close()
        self._judge.close()

    def problem(self, path: Path) -> Problem | None:
        """Returns the problem that a file is about, by its name."""
        return catalog.load(path.stem) if path.suffix == ".py" and path.stem in catalog.names() else None

    def grade(self, path: Path) -> "Future[Report | None]":
        """Grades a file as it is on disk, and records the verdict if it is that of a workspace. None if a later call
        ends it. The future raises CommandError."""
        problem, space = self._required(path), Workspace(path.parent)
        future = self._asked[path] = Future[Report | None]()
        future.set_running_or_notify_cancel()
        self._queue.request(Request(problem, space, partial(self._publish, path, space, future)))
        return future

    def _publish(self, path: Path, space: Workspace, future: "Future[Report | None]", news: News) -> None:
        match news:
            case Graded():
                self._reports[path] = news.report
                if _is_in_workspace(path):
                    grade_file.remember(space, news.report, news.digest)
                future.set_result(news.report)
            case Failed():
                future.set_exception(news.error)
            case Dropped():
                future.set_result(None)

    def points(self, path: Path) -> tuple[int, str]:
        """Returns the line of the first entry, and the learner's standing in words."""
        problem = self._required(path)
        standing = Workspace(path.parent).standing(problem)
        state = f", {standing.state}" if standing.state else ""
        return source_lines.definition(
            findings.text_of(path), problem.entries[0].name
        ), f"{standing.points} of {problem.points} points{state}"

    def hover(self, path: Path, word: str) -> str:
        """Returns the page's text on an entry, as Markdown: its signature, inputs and output. Empty for other words."""
        problem = self.problem(path)
        if problem is None or word not in [entry.name for entry in problem.entries]:
            return ""
        sections = page.sections(problem)
        code = _signature(catalog.stub_text(problem), word) or problem.entry(word).signature()
        said = [f"**{title}**\n\n{sections[title]}" for title in ("Inputs", "Output") if title in sections]
        return page.as_text("\n\n".join([f"```python\n{code}\n```", *said]))

    def hint(self, path: Path) -> str:
        """Returns the next hint, which is recorded as one that the learner has seen if the file is that of a
        workspace."""
        problem, space = self._required(path), Workspace(path.parent)
        hints, seen = page.hints(problem), max(space.hints_seen(problem), self._hints.get(path, 0))
        self._hints[path] = number = min(seen + 1, len(hints))
        if number > seen and _is_in_workspace(path):
            space.remember(problem, hints=number)
        return page.as_text(f"Hint {number} of {len(hints)}: {hints[number - 1]}")

    def page(self, path: Path) -> Path:
        """Returns the file with the page, in the workspace. Raises UsageError if there is none."""
        problem = self._required(path)
        found = path.parent / "pages" / f"{problem.name}.md"
        if not found.is_file():
            raise UsageError(f"There is no {found}; `grade start` writes it.")
        return found

    def has_failing_case(self, path: Path) -> bool:
        """Returns whether the last verdict on the file shows a failing case."""
        report = self._reports.get(path)
        return report is not None and report.counterexample is not None

    def script(self, path: Path) -> Path:
        """Writes the script that runs the file on its failing case, beside it. Returns its path."""
        return script.write_beside(path, script.Tried.of(self._last_report(path)))[0]

    def report(self, path: Path) -> Path:
        """Returns the last verdict on the file as a web page with heat maps, in a temporary folder."""
        report = self._last_report(path)
        return self._write(f"verdict_p{report.problem.label}.html", html_report.document(report))

    def play(self, path: Path) -> Path:
        """Plays the file in a trained model. Returns the path of a web page with the exhibits, in a temporary
        folder."""
        problem = self._required(path)
        plays.required(problem)
        try:
            source = submission.read(problem, path)
        except UnreadableSubmissionError as error:
            raise UsageError(f"Nothing to play: {error}") from None
        with self._judge.workers() as workers:
            performance = Performance(problem, source, workers)
            shown = [item for item in performance if not isinstance(item, Progress)]
        title = f"Problem {problem.label}, {problem.title}: see it work"
        text = exhibits_page.document(title, selection.selected().title, shown, performance.ending())
        return self._write(f"play_p{problem.label}.html", text)

    def _write(self, name: str, text: str) -> Path:
        self._pages = self._pages or tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True)
        target = Path(self._pages.name) / name
        files.write(target, text)
        return target

    def _last_report(self, path: Path) -> Report:
        """Returns the last verdict on the file, which is graded if there is none."""
        self._required(path)
        asked = self._asked.get(path)
        known = asked.result() if asked and not asked.done() else self._reports.get(path)
        report = known or self.grade(path).result()
        if report is None:
            raise UsageError("The file was saved meanwhile; try again.")
        return report

    def _required(self, path: Path) -> Problem:
        problem = self.problem(path)
        if problem is None:
            raise UsageError(f"{path.name} is not the file of a problem of this course.")
        return problem


class _Judge:
    """Grades with the fork server of another program's resident judge, else by one that is kept here."""

    def __init__(self) -> None:
        self._resident: Resident | None = None

    def grade(self, problem: Problem, submission: Submission, *, listener: Listener) -> Report:
        if self._resident is None and client.is_with_program():
            return grade_file.grade(problem, submission, GradeOptions())
        self._resident = self._resident or Resident()
        return self._resident.grade(problem, submission, listener=listener)

    def supersede(self, submission: Submission) -> None:
        """Ends the grading of a submission, if it runs here."""
        if self._resident:
            self._resident.supersede(submission)

    def workers(self) -> "contextlib.AbstractContextManager[Workers]":
        """Returns a context manager that provides the worker of a play."""
        return contextlib.nullcontext(self._resident) if self._resident else grade_file.fork_server()

    def close(self) -> None:
        if self._resident:
            self._resident.close()


def _is_in_workspace(path: Path) -> bool:
    return (path.parent / log.FILE).is_file()


def _signature(stub: str, name: str) -> str:
    """Returns the heads of an entry in the stub: of a function, or of a class and its methods, with the shapes in their
    annotations."""
    tree = imports.parse(stub)
    node = next((each for each in tree.body if getattr(each, "name", "") == name), None) if tree else None
    if isinstance(node, ast.FunctionDef):
        return _head(node)
    if isinstance(node, ast.ClassDef):
        methods = [f"    {_head(each)}" for each in node.body if isinstance(each, ast.FunctionDef)]
        return "\n".join([f"class {name}:", *methods])
    return ""


def _head(function: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"def {function.name}({ast.unparse(function.args)}){returns}: ..."
