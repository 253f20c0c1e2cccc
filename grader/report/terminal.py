"""The report for a terminal: as wide as it is, and no meaning in color alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import click
import numpy as np

from commandline.terminal import PLAIN, wrap
from commandline.text import sentence
from grader.course import catalog
from grader.judge.blocked import NOT_JUDGED
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Case
from grader.wire.compare import Mismatch

_COLORS = {Verdict.PASS: "green", Verdict.NOT_ATTEMPTED: "yellow"}
_SHOWN = 120  # numbers; a larger array is abbreviated
_TINY = 1e-12  # a number below it is meant to be tiny, and must not look like 0


def render(
    report: Report, width: int = PLAIN, *, advises: bool = True, play: str = "", see: str = "", fix: bool | str = ""
) -> str:
    """Returns the whole report in lines of at most `width` columns, with ANSI colors. `play` is the command that plays
    the file, `grade play NN` unless given. `see` is a sentence on how to see it at work after a failure, instead of the
    one that names that command.

    How to mend a misconception is told if `fix` is true. A text is a sentence on how to ask for it, instead of the one
    that names `grade problem NN --fix`; false leaves it out.

    Its last lines are the next step, if it `advises`. `click.echo` removes the colors where the output is not a
    terminal, or takes none.
    """
    play = play or f"grade play {report.problem.label}"
    see = see or f"See what your code does now: `{play}`."
    lines = list(_lines(report, width, play, see=see, fix=fix))
    return "\n".join([*lines, "", *wrap(f"Next: {next_step(report, play)}", width)] if advises else lines)


def render_check(result: CheckResult, width: int = PLAIN) -> str:
    """Returns one check of a report, with ANSI colors."""
    return "\n".join(_check(width, result, result.message))


def _lines(report: Report, width: int, play: str, *, see: str, fix: bool | str) -> Iterator[str]:
    problem = report.problem
    verdict = click.style(report.verdict, fg=_COLORS.get(report.verdict, "red"), bold=True)
    subject, score = (
        f"Problem {problem.label}, {problem.title}:",
        f"{verdict}, {report.score} of {problem.points} points",
    )
    fits = len(subject) + 1 + len(click.unstyle(score)) <= width
    yield from [f"{subject} {score}"] if fits else [subject, f"  {score}"]
    yield from (line for note in (*report.notes, *report.remarks) for line in wrap(sentence(note), width))
    yield ""
    said: set[str] = set()
    for stage in report.stages:
        if heading := stage.heading():
            yield from wrap(heading, width)
        for result in stage.checks if stage.reached else ():
            repeated = result.message in said and not result.message.startswith(NOT_JUDGED)
            yield from _check(width, result, "same cause as above" if repeated else result.message)
            said |= {result.message} if result.message else set()
    failed = report.first_failure
    if report.verdict is Verdict.NOT_ATTEMPTED and not report.earlier:
        entries = " and ".join(f"`{entry.signature()}`" for entry in problem.entries)
        yield from ["", *wrap(f"Nothing to grade yet: write {entries} in {report.filename}.", width)]
    if report.earlier:
        yield from _earlier(width, report.earlier)
    if failed and report.verdict is not Verdict.NOT_ATTEMPTED:
        yield from _first_failure(width, report, failed, play, see=see, fix=fix)
    if report.verdict is not Verdict.NOT_ATTEMPTED:
        if report.eager_stdout.strip():
            yield from _printed("In an eager run of this case, it printed:", report.eager_stdout, width, 20)
        elif report.stdout.strip():
            yield from _printed("It printed:", report.stdout, width, 8)


def _printed(title: str, text: str, width: int, most: int) -> Iterator[str]:
    """Yields the last lines of a text that was printed."""
    lines = text.strip().splitlines()
    yield from ["", title, *(part for line in lines[-most:] for part in wrap(line[:400], width, 2) or [""])]


def _check(width: int, result: CheckResult, message: str) -> Iterator[str]:
    word = {Verdict.PASS: "pass", Verdict.NOT_ATTEMPTED: "todo"}.get(result.verdict, result.verdict)
    score = result.check.points if result.passed else 0
    first, *more = wrap(result.check.name, width, 14, first=f"  {word:7} {score}/{result.check.points}  ")
    yield from [first.replace(word, click.style(word, fg=_COLORS.get(result.verdict, "red")), 1), *more]
    if message and not result.passed and result.verdict is not Verdict.NOT_ATTEMPTED:
        yield from wrap(message, width, 14)


def _earlier(width: int, report: Report) -> Iterator[str]:
    failed = report.first_failure
    assert failed is not None  # noqa: S101  the report did not pass
    yield ""
    yield click.style(f"Check problem {report.problem.label} first: this problem builds on it.", bold=True)
    verdict = "is not implemented yet" if report.verdict is Verdict.NOT_ATTEMPTED else "fails its own checks"
    yield from wrap(f"Your {report.filename} {verdict}. {failed.check.name}: {failed.message}", width, 2)
    if report.misconception:
        yield from wrap(f"Likely cause: {report.misconception.name}. {report.misconception.says}", width, 2)


def _first_failure(
    width: int, report: Report, failed: CheckResult, play: str, *, see: str, fix: bool | str
) -> Iterator[str]:
    mismatch, case = failed.mismatch, failed.case
    if report.frames:
        yield from ["", "Your code, where it stopped:", *(f"  {line}" for line in report.frames.splitlines())]
    if mismatch:
        yield from ["", f"First difference: {failed.check.name}"]
        yield from _mismatch(width, mismatch)
    if case:
        yield from ["", "Smallest failing case found:" if mismatch else "In this case:"]
        family = report.problem.cases.get(case.group)
        yield from _case(width, case, family.show(case.values) if family and family.show else case.values)
    if report.misconception:
        cause = wrap(f"Likely cause: {report.misconception.name}", width)
        yield from ["", *(click.style(line, bold=True) for line in cause)]
        yield from wrap(report.misconception.says, width, 2)
        if report.misconception.fix and fix is not False:
            graded = play.replace("grade play", "grade problem", 1)
            asking = fix or f"To read how to mend it, which counts as a hint: `{graded} --fix`."
            yield from wrap(report.misconception.fix if fix is True else str(asking), width, 2)
        if report.can_play:
            yield from wrap(see, width, 2)
    elif report.fault:
        yield from ["", *wrap(report.fault, width)]
    elif failed.advice:
        yield from ["", *wrap(failed.advice, width)]


def _mismatch(width: int, mismatch: Mismatch) -> Iterator[str]:
    if mismatch.words:
        yield from wrap(sentence(mismatch.words), width, 2)
        return
    rows = [("leaf", mismatch.place), ("expected", mismatch.expected), ("got", mismatch.got)]
    if mismatch.off_by is not None:
        rows.append(("off by", f"{mismatch.off_by:.3g}"))
    yield from (line for name, value in rows for line in wrap(value, width, 12, first=f"  {name:9} "))


def _case(width: int, case: Case, shown: Mapping[str, Any]) -> Iterator[str]:
    for name, value in shown.items():
        if not isinstance(value, np.ndarray):
            yield from wrap(f"{name} = {value!r}" if name in case.values else f"{name}: {value}", width, 4, first="  ")
            continue
        yield f"  {name}: {value.dtype}{list(value.shape)}"
        tiny = value.dtype.kind == "f" and bool(((value != 0) & (abs(value) < _TINY)).any())
        text = np.array2string(
            value, precision=4, suppress_small=not tiny, max_line_width=width - 4, threshold=_SHOWN, edgeitems=2
        )
        yield from (f"    {line}" for line in text.splitlines())


def next_step(report: Report, play: str = "") -> str:
    """Returns the next step for the learner, in one sentence. `play` is as in `render`."""
    label = report.problem.label
    if report.earlier:
        return f"fix {report.earlier.filename} first: `grade problem {report.earlier.problem.label}`."
    match report.verdict:
        case Verdict.PASS:
            played = f"`{play or f'grade play {label}'}` shows your code at work" if report.can_play else ""
            solution = f"`grade solution {label}` shows the reference and its reasons"
            offers = filter(None, (played, solution if catalog.shows_solution(report.problem) else ""))
            return f"{'; '.join(offers) or '`grade next` suggests a problem'}."
        case Verdict.NOT_ATTEMPTED:
            return f"read the page with `grade show {label}`; `grade hint {label}` gives a nudge."
        case Verdict.FAIL:
            shown = report.first_failure and report.first_failure.mismatch
            what = "first difference" if shown else "first check that does not pass"
            return f"fix the {what}, then grade again; `grade hint {label}` gives a nudge."
        case Verdict.TIMEOUT:
            return f"make it end, or allow more time with `--timeout`; `grade hint {label}` gives a nudge."
        case _:
            return f"fix the error, then grade again; `grade show {label}` has the signatures."
