"""`pytest --workspace attempts`: one test for each check, so that editors and course systems that speak pytest show verdicts."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from grader.course import catalog
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Problem


class CheckFailedError(Exception):
    """A check that did not pass; the message is what the learner reads."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workspace", metavar="DIR", help="Grade the files of a GPT Kata workspace, a test for each check."
    )


def pytest_configure(config: pytest.Config) -> None:
    workspace = config.getoption("--workspace")
    if workspace and not Path(workspace).is_dir():
        raise pytest.UsageError(f"There is no workspace {workspace}; `grade start` makes one.")
    if workspace and config.args_source != pytest.Config.ArgsSource.ARGS:
        config.args = [workspace]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "WorkspaceFile | None":
    workspace = parent.config.getoption("--workspace")
    if not workspace or file_path.parent != Path(workspace).resolve() or file_path.suffix not in (".py", ".ipynb"):
        return None
    if file_path.stem not in catalog.names():
        return None
    found: WorkspaceFile = WorkspaceFile.from_parent(parent, path=file_path)
    return found


def pytest_unconfigure(config: pytest.Config) -> None:
    fork_server = config.stash.get(_FORK_SERVER, None)
    if fork_server:
        from grader.isolation import scratch

        fork_server.close()
        scratch.leave()


_FORK_SERVER = pytest.StashKey[Any]()


class WorkspaceFile(pytest.File):
    """One problem's file; graded once, when its first check is asked for."""

    @property
    def problem(self) -> Problem:
        return catalog.load(self.path.stem)

    def collect(self) -> Iterator["CheckItem"]:
        for number, check in enumerate(self.problem.checks):
            yield CheckItem.from_parent(self, name=check.name, number=number)

    @cached_property
    def report(self) -> Report:
        from grader.isolation.sandbox import ForkServer
        from grader.judge import judge, submission

        stash = self.config.stash
        if _FORK_SERVER not in stash:
            stash[_FORK_SERVER] = ForkServer()
        try:
            source = submission.read(self.problem, self.path)
        except submission.UnreadableSubmissionError as error:
            return judge.refused(self.problem, self.path.name, Verdict.ERROR, str(error))
        return judge.grade(self.problem, source, stash[_FORK_SERVER])


class CheckItem(pytest.Item):
    """One check."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    @property
    def file(self) -> WorkspaceFile:
        assert isinstance(self.parent, WorkspaceFile)  # noqa: S101  it made this
        return self.parent

    def runtest(self) -> None:
        result = self.file.report.checks[self.number]
        if result.verdict is Verdict.NOT_ATTEMPTED:
            pytest.skip("not implemented yet")
        if not result.passed:
            raise CheckFailedError(self._message(result))

    def _message(self, result: CheckResult) -> str:
        """With the first that fails, the idea behind it."""
        idea = self.file.report.misconception
        if result is not self.file.report.first_failure or not idea:
            return result.message
        return f"{result.message}\nLikely cause: {idea.name}. {idea.says}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, CheckFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where an editor goes: the definition of the entry."""
        entry = self.file.problem.entries[0].name
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        place = next(
            (n for n, line in enumerate(lines) if re.match(rf"\s*(def|class)\s+{re.escape(entry)}\b", line)), 0
        )
        return self.path, place, f"problem {self.file.problem.label}: {self.name}"
