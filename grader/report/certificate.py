"""A learner's own record of what they passed, as one page of HTML that needs nothing else: first what they built and
what their model wrote, then each problem with its digest."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from commandline.text import counted
from grader.course import catalog
from grader.course.log import Progress
from grader.course.selection import selected
from grader.course.workspace import PASSED, PASSED_BY_CORE, Workspace
from grader.exhibits import POINTS, Ending, Line, Lines
from grader.problem import Problem
from grader.report import exhibits_page, html_report
from grader.report.own_run import Curve, OwnRun

_MARK = '<meta name="generator" content="grade certificate">'
_PNG_MARK = b"tEXtSoftware\0grade certificate"
_PNG_HEADER = 33  # bytes: the signature of a PNG file and its first chunk


@dataclass(frozen=True)
class Row:
    """A passed problem in the table: its title, its points, when it passed, and details in small print."""

    title: str
    points: str
    when: str
    details: Sequence[str]


def render(
    space: Workspace, name: str, run: OwnRun | None = None, records: Sequence[str] = (), *, short: bool = False
) -> str:
    """Returns the certificate for everything that was passed in a workspace. `name` may be empty; `run` is the run to
    show, and `records` are sentences about records. A `short` one is without the table of problems, for a picture."""
    progress = space.progress()
    passed = [problem for problem in catalog.problems() if progress.get(problem.name, Progress()).verdict == "PASS"]
    by_core = sum(progress[problem.name].by_core for problem in passed)
    points = sum(progress[problem.name].score for problem in passed)
    possible = sum(problem.points for problem in catalog.problems())
    parts = dict[str, list[Row]]()
    for problem in passed:
        parts.setdefault(catalog.part_of(problem), []).append(_row(problem, space, progress[problem.name]))
    return (
        html_report.environment()
        .get_template("certificate.jinja")
        .render(
            mark=_MARK,
            style=html_report.STYLE,
            title=": ".join(filter(None, [selected().title, name])),
            summary=f"{counted(len(passed), 'problem')} of {len(catalog.problems())} passed"
            f"{f' ({by_core} by the core alone)' if by_core else ''}, {points} of {possible} points.",
            built=[text[0].upper() + text[1:] for text in catalog.built(problem.name for problem in passed)],
            run=run,
            told=_told(run) if run else "",
            picture=exhibits_page.article("", [_picture(run)], Ending()) if run else "",
            records=records,
            parts={} if short else parts,
            short=short,
        )
    )


def marked(png: bytes) -> bytes:
    """Returns a picture of the certificate with a note that it is one."""
    note = struct.pack(">I", len(_PNG_MARK) - 4) + _PNG_MARK + struct.pack(">I", zlib.crc32(_PNG_MARK))
    return png[:_PNG_HEADER] + note + png[_PNG_HEADER:]


def is_certificate(path: Path) -> bool:
    """Returns whether a file was written from `render`, or is a picture that was `marked`."""
    try:
        with path.open("rb") as file:
            start = file.read(1000)
            return _MARK.encode() in start or _PNG_MARK in start
    except OSError:
        return False


def _told(run: OwnRun) -> str:
    step, loss = run.best
    compared = "below" if loss < run.bigram else "not yet below"
    return (
        f"After {step:,.0f} steps its validation loss is {loss:.2f} nats a token, {compared} the {run.bigram:.2f} of a "
        "bigram model, which counts pairs of tokens."
    )


def _picture(run: OwnRun) -> Lines:
    last = max(step for step, _ in (*run.training, *run.validation))
    curves = {"training": run.training, "validation": run.validation, "bigram": ((0, run.bigram), (last, run.bigram))}
    lines = tuple(_line(name, curve) for name, curve in curves.items() if curve)
    return Lines("Its loss while it was trained", lines, y="loss in nats a token")


def _line(name: str, curve: Curve) -> Line:
    few = curve[:: len(curve) // POINTS + 1]
    return Line(name, *zip(*few, strict=True))


def _row(problem: Problem, space: Workspace, row: Progress) -> Row:
    notes = []
    if row.help:
        notes.append(f"with {counted(row.help, 'hint')}")
    if row.given_up:
        notes.append("after seeing the reference")
    if row.by_core:
        notes.append(PASSED_BY_CORE)
    if (state := space.standing(problem).state) not in (PASSED, PASSED_BY_CORE):
        notes.append(state)
    when = row.passed_at.replace("T", " ").removesuffix("+00:00") or "before passes were dated"
    details = [text for text in (row.versions, f"digest {row.digest}" if row.digest else "", *notes) if text]
    return Row(f"{problem.label} {problem.title}", f"{row.score} of {problem.points}", when, details)
