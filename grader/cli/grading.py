"""`grade problem`, and how other commands grade a file: with a sign of life on the terminal."""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commandline import terminal
from commandline.errors import CommandError, UsageError
from commandline.progress import working
from grader.cli import play, teacher
from grader.course import catalog, log, workspace
from grader.course.workspace import Workspace
from grader.judge.options import GradeOptions
from grader.problem import Problem

if TYPE_CHECKING:
    from grader.judge.verdict import Report
    from grader.resident.messages import Display, GradeResponse


def report(problem: Problem, file: Path, options: GradeOptions, *, modules: Path | None = None) -> "Report":
    """Grades a file as `grade_file.report` does."""
    from grader.resident import grade_file

    with working(f"grading problem {problem.label}", lines=problem.long_runs and options.show) as say:
        return grade_file.report(problem, file, options, modules=modules, say=say)


def response(problem: Problem, file: Path, options: GradeOptions, display: "Display") -> "GradeResponse":
    """Grades a file as `grade_file.response` does."""
    from grader.resident import grade_file

    with working(f"grading problem {problem.label}", lines=problem.long_runs and options.show) as say:
        return grade_file.response(problem, file, options, display, say=say)


@contextmanager
def fork_server(title: str) -> Iterator[Any]:
    """Yields a fork server for a command, with a sign of life on the terminal."""
    from grader.resident import grade_file

    with grade_file.fork_server() as server, working(title):
        yield server


@dataclass(frozen=True)
class Attempt:
    """A file for a problem.

    Attributes:
        problem: The problem.
        space: The workspace.
        file: The path of the file.
        own: Whether it is the workspace's own file, whose verdicts are recorded.
        digest: The digest of its text, if it is.
    """

    problem: Problem
    space: Workspace
    file: Path
    own: bool
    digest: str

    @classmethod
    def at(cls, space: Workspace, problem: Problem, file: Path | None, *, machine_readable: bool) -> "Attempt":
        """Returns the file that was named, or the one in the workspace, which is made from the stub if there is
        none."""
        if file is None:
            if space.add(problem):
                click.echo(f"new   {space.file(problem)}\n", err=machine_readable)
            file = space.file(problem)
        own = file.resolve() == space.file(problem).resolve()
        return cls(problem, space, file, own, space.digest(problem))

    def play_command(self) -> str:
        """Returns the command that plays the file; empty for the usual one."""
        if self.own:
            return ""
        # A path is not broken into lines, so a long one is left to the reader.
        name = shlex.quote(str(self.file)) if len(str(self.file)) <= terminal.width() // 2 else "FILE"
        return f"grade play {self.problem.label} {name}"

    def note(self, verdict: "GradeResponse", *, machine_readable: bool) -> None:
        """Records the verdict, or prints why it is not recorded."""
        if self.own:
            try:
                verdict.note(self.space, self.problem, self.digest)
            except UsageError as error:  # the verdict is valid anyway
                terminal.echo(f"grade: could not save your progress: {error}", err=True)
        elif verdict.verdict == "PASS" and not machine_readable:
            terminal.echo(f"Not recorded: your progress is about {self.space.file(self.problem)}.", err=True)
        if self.own and verdict.verdict == "PASS" and not machine_readable:
            terminal.echo(self._cost())
        if verdict.verdict != "PASS" and not machine_readable and (other := self._mixed_up()):
            terminal.echo(other, err=True)

    def _cost(self) -> str:
        """Returns a sentence on what the file costs, as the log has it: nothing is counted now."""
        for entry in reversed(self.space.entries()):
            figures = entry.facts.get("figures")
            if (entry.kind, entry.problem, entry.text("digest")) == (log.COUNTED, self.problem.name, self.digest):
                work = figures.get("work") if isinstance(figures, dict) else None
                return f"It takes {work:,} scalar operations." if type(work) is int else ""
        return f"`grade cost {self.problem.label}` counts what it costs."

    def _mixed_up(self) -> str:
        """Returns a sentence on the file that may have been meant instead of this one: another problem's, or one beside
        the workspace. Empty if there is none."""
        meant = next((name for name in catalog.names() if name == self.file.stem != self.problem.name), None)
        if meant:
            again = f"grade problem {meant.label} {shlex.quote(str(self.file))}"
            return f"{self.file.name} has the name of problem {meant.label}: `{again}`."
        beside = Path(f"{self.problem.name}.py")
        if self.own and beside.is_file() and not beside.samefile(self.file):
            return f"There is another {beside} in this folder: `grade problem {self.problem.label} {beside}` grades it."
        return ""


@click.command(name="problem")
@click.argument("word", metavar="NN")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(teacher.FORMATS),
    help="Output format, for integration with another system.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, metavar="N", help="Generate different cases.")
@click.option(
    "--seed-file",
    type=click.Path(path_type=Path),
    help="File with a secret seed; case inputs are withheld from the report.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, 86400, min_open=True),
    metavar="S",
    help="Total time limit for your code, in seconds of computing.",
)
@click.option("--fix", is_flag=True, help="Tell how to mend the likely cause. This counts as a hint.")
@click.option("--full", is_flag=True, help="Show whole arrays of the first failure, expected beside yours.")
@play.html_option("Also write the report as a web page: arrays as heat maps, and your code at work.")
@click.pass_obj
def problem_(
    folder: str | None,
    /,
    word: str,
    file: Path | None,
    as_json: bool,
    format_: str | None,
    fix: bool,
    full: bool,
    html: Path | None,
    **options: Any,
) -> None:
    """Grade your file for problem NN (7, 07, p07 or next_token_loss).

    FILE is the one in your workspace unless you name another. If it does not exist there yet, it is created from the
    stub.
    """
    from grader.resident import spawn

    format_ = format_ or ("json" if as_json else None)
    problem = None
    try:
        problem = catalog.find(word)
        attempt = Attempt.at(workspace.find(folder), problem, file, machine_readable=format_ is not None)
        how = _options(**options, shows_cases=full or html is not None)
        made, verdict = _graded(attempt, how, format_, fix=fix, full=full, html=html)
    except CommandError as error:
        if as_json:
            from grader.report import json_report as report_json

            refused = report_json.PublicReport.refused(problem.name if problem else None, str(error))
            click.echo(report_json.dumps(refused))
        raise
    click.echo(_text(made, verdict, how, format_), nl=False)
    if made and html:
        from commandline import files
        from grader.report.html_report import document

        files.write(html, document(made))
        terminal.echo(f"new   {html}", err=True)
    attempt.note(verdict, machine_readable=format_ is not None)
    if verdict.verdict == "PASS" and attempt.own and format_ is None:
        if following := attempt.space.next_problem():
            terminal.echo(f"Next problem: {following.label} {following.title}, `grade show {following.label}`.")
        if said := attempt.space.finished(problem):
            click.echo()
            terminal.echo(click.style(said, bold=True))
    if fix and attempt.own:
        attempt.space.remember(problem, fix=verdict.mistake)
    if made and html:
        play.add_to_report(made, attempt.file, html)
    sys.stdout.flush()
    sys.stderr.flush()
    if how.show:
        spawn.leave(problem.name, attempt.space.folder)
    # All work is done; a normal interpreter shutdown would only take time.
    os._exit(0 if verdict.verdict == "PASS" else 1)


def _options(*, seed_file: Path | None, shows_cases: bool, **values: Any) -> GradeOptions:
    """Returns the options as they were given. Raises UsageError if the cases are to be secret and shown."""
    if seed_file is None:
        return GradeOptions(**values)
    if shows_cases:
        raise UsageError("--html and --full show the cases, which --seed-file keeps secret; leave one of them out.")
    from grader.course.seed import read_seed

    return GradeOptions(**{**values, "seed": read_seed(seed_file), "show": False})


def _graded(
    attempt: Attempt, options: GradeOptions, format_: str | None, *, fix: bool, full: bool, html: Path | None
) -> "tuple[Report | None, GradeResponse]":
    """Returns the verdict and, where texts are not enough, the report that it is of."""
    from grader.resident.messages import Display, GradeResponse, View

    views: tuple[View, ...] = ("json",) if format_ else ("terminal", "arrays") if full else ("terminal",)
    display = Display(views, terminal.width(), attempt.play_command(), fix)
    if options.show and html is None:
        return None, response(attempt.problem, attempt.file, options, display)
    made = report(attempt.problem, attempt.file, options)
    return made, GradeResponse.of(made, display if options.show else replace(display, views=()))


def _text(made: "Report | None", verdict: "GradeResponse", options: GradeOptions, format_: str | None) -> str:
    """Returns the text to print for a verdict. Reveals nothing of secret cases."""
    if options.show and format_ in (None, "json"):
        return "\n".join([*filter(None, verdict.texts.values()), ""])
    from grader.report.formats import render
    from grader.report.json_report import PublicReport

    if made and not options.show:
        from grader.report.redacted import redacted

        return render([redacted(PublicReport.of(made))], format_ or "text")
    return render([PublicReport.decode(json.loads(verdict.texts["json"]))], format_ or "json")


COMMANDS = (problem_,)
