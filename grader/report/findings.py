"""The findings of a verdict at the lines of a learner's file, for editors: the language server and the lines of watch
mode."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from commandline import files
from commandline.invocation import as_typed
from grader.judge import submission
from grader.judge.verdict import Report, Verdict
from grader.report import source_lines


@dataclass(frozen=True)
class Finding:
    """A finding at a line of a file.

    Attributes:
        line: The line, from 1.
        message: The message.
        code: A word for the source of the finding.
        related: Advice, each with the file and line that it is about.
        passed_over: Whether nothing is wrong: the file is a stub.
    """

    line: int
    message: str
    code: str
    related: Sequence[tuple[Path, int, str]] = ()
    passed_over: bool = False


def of(report: Report, path: Path) -> list[Finding]:
    """Returns the findings about the file at `path`, each at the line that matters; none if it passed."""
    failed, problem = report.first_failure, report.problem
    if failed is None:
        return []
    text = text_of(path)
    related = (_first_fix(report.earlier, path),) if report.earlier else ()
    if report.verdict is Verdict.NOT_ATTEMPTED:
        line = source_lines.definition(text, problem.entries[0].name)
        return [Finding(line, _not_graded(report), "to do", related, passed_over=True)]
    line = source_lines.of(report, text)
    idea = f"{report.misconception.name}. " if report.misconception else ""
    message = f"{idea}{failed.check.name}: {failed.message} ({report.score} of {problem.points} points)"
    if advice := _advice(report):
        related = (*related, (path, line, advice))
    return [Finding(line, message, failed.check.name, related)]


def lines(report: Report, path: Path) -> Iterator[str]:
    """Yields the findings as compilers print theirs, for an editor that reads them: `FILE:LINE:COL: error: MESSAGE`.

    Advice follows as `info`. A column is always 1.
    """
    for finding in of(report, path):
        yield _line(path, finding.line, "info" if finding.passed_over else "error", finding.message)
        for other, line, advice in finding.related:
            yield _line(other, line, "info", advice)


def text_of(path: Path) -> str:
    """Returns the text of a submission's file; empty if it cannot be read."""
    try:
        return files.read_regular(path, submission.MAX_SIZE + 1).decode("utf-8", "replace")
    except (OSError, files.NotRegularFileError):
        return ""


def _line(path: Path, line: int, severity: str, message: str) -> str:
    return f"{path.absolute()}:{line}:1: {severity}: {' '.join(as_typed(message).split())}"


def _not_graded(report: Report) -> str:
    if earlier := report.earlier:
        state = "is not written yet" if earlier.verdict is Verdict.NOT_ATTEMPTED else "does not pass"
        return f"Not graded yet: this file builds on problem {earlier.problem.label}, and {earlier.filename} {state}."
    signatures = " and ".join(f"`{entry.signature()}`" for entry in report.problem.entries)
    return f"Nothing to grade yet: write {signatures}."


def _first_fix(earlier: Report, path: Path) -> tuple[Path, int, str]:
    """Returns the place in the file of an earlier problem, beside the one at `path`, that has to be fixed first."""
    other = path.with_name(earlier.filename)
    line = source_lines.of(earlier, text_of(other)) if other.is_file() else 1
    return other, line, f"Check problem {earlier.problem.label} first: this problem builds on it."


def _advice(report: Report) -> str:
    failed = report.first_failure
    if report.misconception:
        return report.misconception.says
    return as_typed(report.fault or (failed.advice if failed else ""))
