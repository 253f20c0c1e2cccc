"""`pytest --workspace attempts`: one test for each check, for editors and course systems that run pytest.

Each pytest in the environment loads this file, also without a workspace, so what needs the course is imported where it
is used.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from grader.problem import Problem
    from grader.report.json_report import CheckRow, PublicReport

MAX_SHOWN = 1 << 20  # bytes of a file in which the place of an entry is looked up


class CheckFailedError(AssertionError):
    """A check that did not pass. The learner reads the message. VS Code calls a test with any other exception an
    error."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workspace", metavar="DIR", help="Grade the files in a GPT Kata workspace, with one test for each check."
    )


def pytest_configure(config: pytest.Config) -> None:
    workspace = config.getoption("--workspace")
    if not workspace:
        return
    if not Path(workspace).is_dir():
        raise pytest.UsageError(f"There is no workspace {workspace}; `grade start` creates one.")
    from commandline.errors import UsageError
    from grader.course import selection
    from grader.course.workspace import Workspace

    try:
        selection.select(None, Workspace(Path(workspace)).course)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    if config.args_source != pytest.Config.ArgsSource.ARGS:
        config.args = [workspace]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collects a problem's file, and nothing else in the workspace: pytest would import the file into this process."""
    collectors = yield
    workspace = parent.config.getoption("--workspace")
    if not workspace or not file_path.is_relative_to(Path(workspace).resolve()):
        return collectors
    if file_path.parent != Path(workspace).resolve() or file_path.suffix not in (".py", ".ipynb"):
        return []
    from grader.course import catalog

    return [WorkspaceFile.from_parent(parent, path=file_path)] if file_path.stem in catalog.names() else []


def pytest_unconfigure(config: pytest.Config) -> None:
    fork_server = config.stash.get(_FORK_SERVER, None)
    if fork_server:
        from grader.isolation import scratch

        fork_server.close()
        scratch.leave()


_FORK_SERVER = pytest.StashKey[Any]()


class WorkspaceFile(pytest.File):
    """One problem's file. It is graded once, when its first test runs."""

    @property
    def problem(self) -> Problem:
        from grader.course import catalog

        return catalog.load(self.path.stem)

    def collect(self) -> Iterator[CheckItem]:
        for number, check in enumerate(self.problem.checks):
            yield CheckItem.from_parent(self, name=check.name, number=number)

    @cached_property
    def report(self) -> PublicReport:
        """The verdict on the file: that of a resident judge if there is one."""
        from commandline.errors import UsageError
        from grader.isolation.sandbox import ForkServer
        from grader.judge import judge, submission
        from grader.judge.verdict import Verdict
        from grader.report.json_report import PublicReport
        from grader.resident import client
        from grader.resident.messages import Display, GradeRequest

        try:
            source = submission.read(self.problem, self.path)
        except (UsageError, submission.UnreadableSubmissionError) as error:
            return PublicReport.of(judge.refused(self.problem, self.path.name, Verdict.ERROR, str(error)))
        request = GradeRequest(str(self.problem.name), source, display=Display(("json",)))
        if answer := client.verdict(request, lambda text: None):
            return PublicReport.decode(json.loads(answer.texts["json"]))
        stash = self.config.stash
        if _FORK_SERVER not in stash:
            stash[_FORK_SERVER] = client.borrowed() or ForkServer()
        return PublicReport.of(judge.grade(self.problem, source, stash[_FORK_SERVER]))


class CheckItem(pytest.Item):
    """One check."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    @property
    def file(self) -> WorkspaceFile:
        assert isinstance(self.parent, WorkspaceFile)  # noqa: S101  which created this item
        return self.parent

    def runtest(self) -> None:
        from grader.judge.verdict import Verdict

        result = self.file.report.checks[self.number]
        if result.verdict is Verdict.NOT_ATTEMPTED:
            pytest.skip("not implemented yet")
        if not result.passed:
            raise CheckFailedError(self._message(result))

    def _message(self, result: CheckRow) -> str:
        """Returns the message of a check that failed, with its points. For the first one, also the misconception."""
        from commandline.text import counted

        message = f"0 of {counted(result.points, 'point')}. {result.message}"
        misconception = self.file.report.misconception
        if result is not self.file.report.first_failure or not misconception:
            return message
        return f"{message}\nLikely cause: {misconception.name}. {misconception.says}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CheckFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Returns the place that an editor jumps to: the definition of the problem's first entry."""
        from commandline import files
        from commandline.text import counted
        from grader.report import source_lines

        entry = self.file.problem.entries[0].name
        try:
            text = files.read_regular(self.path, MAX_SHOWN).decode("utf-8", "replace")
        except (OSError, files.NotRegularFileError):  # its tests say so
            text = ""
        number = source_lines.definition(text, entry) - 1
        points = counted(self.file.problem.checks[self.number].points, "point")
        return self.path, number, f"problem {self.file.problem.label}: {self.name}, {points}"
