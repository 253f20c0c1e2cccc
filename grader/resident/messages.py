"""The requests of a command to a resident judge, and the responses: texts, ready to be shown, so that the command
imports little."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from commandline import invocation
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission

if TYPE_CHECKING:
    from grader.course.workspace import Workspace
    from grader.judge.verdict import Report
    from grader.problem import Problem

View = Literal["terminal", "arrays", "json"]


@dataclass(frozen=True)
class Display:
    """The options for showing a verdict: the views, the width in columns, the command that plays the file, as
    `report.terminal.render` takes it, and whether to tell how to mend a misconception."""

    views: Sequence[View] = ("terminal",)
    width: int = 80
    play: str = ""
    fix: bool = False


@dataclass(frozen=True)
class GradeRequest:
    """A request to grade a submission.

    Attributes:
        problem: The problem's name.
        submission: The submission.
        options: The options of the grading.
        display: The options for showing the verdict.
        words: The words of `commandline.invocation` in the process that asks.
    """

    problem: str
    submission: Submission
    options: GradeOptions = field(default_factory=GradeOptions)
    display: Display = field(default_factory=Display)
    words: Mapping[str, list[str]] = field(default_factory=invocation.words)

    def encode(self) -> dict[str, Any]:
        """Returns the request as JSON values."""
        return asdict(self)

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the request from JSON values. Raises KeyError or TypeError on anything that `encode` did not make."""
        options, display = GradeOptions.decode(fields["options"]), Display(**fields["display"])
        return cls(
            **{**fields, "submission": _submission(fields["submission"]), "options": options, "display": display}
        )


@dataclass(frozen=True)
class PlayRequest:
    """A request to play a submission.

    Attributes:
        problem: The problem's name.
        submission: The submission.
        text: The text to play with; None for a play that takes none.
        width: The width in columns, as `exhibits_terminal.render` takes it.
        numbers: Whether to show the numbers behind pictures, as `exhibits_terminal.render` takes it.
        compare: Whether to compare the exhibits with those of a right file, as `Performance` takes it.
        seen: The number of the first exhibits that are not shown again.
        words: The words of `commandline.invocation` in the process that asks.
    """

    problem: str
    submission: Submission
    text: str | None
    width: int
    numbers: bool = False
    compare: bool = True
    seen: int = 0
    words: Mapping[str, list[str]] = field(default_factory=invocation.words)

    def encode(self) -> dict[str, Any]:
        """Returns the request as JSON values."""
        return asdict(self)

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the request from JSON values. Raises KeyError or TypeError on anything that `encode` did not make."""
        return cls(**{**fields, "submission": _submission(fields["submission"])})


@dataclass(frozen=True)
class GradeResponse:
    """A verdict: its word, its score, the name of the misconception that was found, the number of stages that are
    passed, and its views as texts."""

    verdict: str
    score: int
    mistake: str
    stages: int
    texts: Mapping[str, str]

    @classmethod
    def of(cls, report: "Report", display: Display) -> Self:
        """Returns the response to send for a report."""
        mistake = report.misconception.name if report.misconception else ""
        return cls(
            str(report.verdict), report.score, mistake, report.stages_passed,
            {view: _text(report, display, view) for view in display.views},
        )  # fmt: skip

    def note(self, space: "Workspace", problem: "Problem", digest: str = "") -> None:
        """Notes the verdict in the log of a workspace. `digest` is that of the text that got it: the current one unless
        given."""
        space.remember(
            problem, verdict=self.verdict, score=self.score, digest=digest, mistake=self.mistake, stages=self.stages
        )

    def encode(self) -> dict[str, Any]:
        """Returns the response as JSON values."""
        return asdict(self)

    @classmethod
    def decode(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the response from JSON values. Raises TypeError on anything that `encode` did not make."""
        return cls(**fields)


def _text(report: "Report", display: Display, view: View) -> str:
    if view == "terminal":
        from grader.report import terminal

        return terminal.render(report, display.width, play=display.play, fix=display.fix or "")
    if view == "arrays":
        from grader.report import full_arrays

        return full_arrays.arrays(report.counterexample, display.width) if report.counterexample else ""
    from grader.report import json_report

    return json_report.dumps(json_report.PublicReport.of(report))


def _submission(fields: Mapping[str, Any]) -> Submission:
    return Submission(fields["filename"], fields["sources"], tuple(fields["notes"]))
