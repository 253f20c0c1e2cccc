"""The report as HTML, for the studio, notebooks and files: arrays as heat maps, self-contained, readable without
scripts."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup, escape

from commandline.invocation import as_typed
from commandline.text import counted, sentence
from grader.course.selection import selected
from grader.judge.counterexample import ComparedLeaf, Counterexample, Part
from grader.judge.verdict import CheckResult, Report, Stage, Verdict
from grader.problem import EXACT
from grader.report.grids import Figure, figure, number
from grader.report.terminal import next_step
from grader.wire.compare import WHOLE, Leaf

TEMPLATES = Path(__file__).parent
STYLE = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in ("html.css", "exhibits.css"))
MOST_FIGURES = 6  # of wrong leaves, and of right ones
MOST_ROWS = 40  # of the table of leaves
MOST_LINES, MOST_PRINTED = 100, 8000  # lines and characters of what was printed
_FRAME = re.compile(r"(?P<file>.+), line (?P<line>\d+)(?:, in (?P<function>.+))?")
_VERDICTS = {Verdict.PASS: "pass", Verdict.NOT_ATTEMPTED: "todo"}
_STATES = {
    "right": "right",
    "faulty": "receives the right input, returns the wrong output",
    "wrong": "wrong output",
    "wrong input": "receives a wrong input",
    "never called": "never called",
    "not recorded": "",
}


@dataclass(frozen=True)
class Row:
    """One leaf in the table of leaves, each side as text. `status` describes what is wrong with it, if anything."""

    path: str
    expected: str
    got: str
    idea: str
    status: str


@dataclass(frozen=True)
class Drawing:
    """An array of the report by name: its dtype and shape, a remark, and its figure."""

    name: str
    kind: str
    remark: str
    figure: Figure


@dataclass(frozen=True)
class Frame:
    """One of the learner's frames of a traceback."""

    place: str
    file: str
    line: str
    code: str


@dataclass(frozen=True)
class Branch:
    """A submodule in the tree of the graded module."""

    name: str
    state: str
    text: str
    inner: Sequence["Branch"]


def document(report: Report, played: str = "") -> str:
    """Returns a whole page with the report, which needs no other file. `played` is the `article` of a play, to be shown
    below it."""
    title = f"Problem {report.problem.label}, {report.problem.title}: {report.verdict}"
    return page(title, selected().title, f"{render(report)}{played}")  # `+` would escape the report


def page(title: str, heading: str, body: str, style: str = STYLE, script: str = "") -> str:
    """Returns a whole page around HTML. A browser that opens it loads no other file, and runs no script but this
    one."""
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() if script else ""
    return environment().get_template("html_document.jinja").render(
        title=title, heading=heading, style=style, body=body, script=script, script_hash=script_hash
    )  # fmt: skip


def render(report: Report, *, is_final: bool = False, play: str | None = None) -> str:
    """Returns the report as one `<article class="verdict">`, to be shown with STYLE. All text in it is escaped.

    A final report has no next step. `play` is the command that shows the file at work, `grade play NN` unless given;
    empty where another way is at hand.
    """
    problem, shown = report.problem, report.counterexample
    failed = report.first_failure if report.verdict is not Verdict.NOT_ATTEMPTED else None
    mismatch = failed.mismatch if failed else None
    texts, arrays = _inputs(report, failed)
    return (
        environment()
        .get_template("html.jinja")
        .render(
            report=report,
            problem=problem,
            failed=failed,
            mismatch=mismatch,
            shown=shown,
            stages=[(stage, list(_said(stage))) for stage in report.stages],
            notes=[sentence(note) for note in (*report.notes, *report.remarks)],
            **_leaves(shown, failed),
            texts=texts,
            arrays=arrays,
            frames=list(frames(report.frames)),
            tree=_tree(shown.tree, "") if shown else [],
            next_step="" if is_final else as_typed(next_step(report, play or "")),
            advice=failed.advice if failed and not report.misconception and not report.fault else "",
            play=(f"grade play {problem.label}" if play is None else play) if not is_final and report.can_play else "",
            signatures=[entry.signature() for entry in problem.entries],
            printed=last(report.stdout),
            printed_eagerly=last(report.eager_stdout),
        )
    )


def _leaves(shown: Counterexample | None, failed: CheckResult | None) -> dict[str, Any]:
    """Gathers the leaves for the template: the table of all, and figures of wrong and of right ones."""
    leaves = shown.leaves if shown and failed and failed.mismatch else ()
    return {
        "rows": [_row(leaf, _words(failed)) for leaf in leaves[:MOST_ROWS]],
        "more_rows": max(0, len(leaves) - MOST_ROWS) + (shown.left_out if shown else 0),
        "wrong": _drawings([leaf for leaf in leaves if leaf.mismatch], shown, failed),
        "right": _drawings([leaf for leaf in leaves if not leaf.mismatch], shown, failed),
        "idea": _idea(leaves),
    }


def last(text: str) -> str:
    """Returns the last part of what was printed."""
    lines = text.strip().splitlines()
    kept = "\n".join(lines[-MOST_LINES:])[-MOST_PRINTED:]
    return kept if len(kept) == len("\n".join(lines)) else f"(the end of {len(lines):,} lines)\n{kept}"


def _said(stage: Stage) -> Iterator[tuple[CheckResult, str, str]]:
    """Yields the result of each check of a stage that was reached, its verdict in a word, and its message. A message
    that repeats an earlier one is replaced by a reference to it."""
    said: set[str] = set()
    for result in stage.checks if stage.reached else ():
        message = "" if result.passed or result.verdict is Verdict.NOT_ATTEMPTED else result.message
        word = _VERDICTS.get(result.verdict, result.verdict.lower())
        yield result, word, "same cause as above" if message in said else message
        said |= {message} if message else set()


def _words(failed: CheckResult | None) -> Mapping[int, str]:
    """Returns the meanings of the numbers of a coded leaf."""
    return failed.check.words_for(failed.case) if failed and failed.case else {}


def _row(leaf: ComparedLeaf, words: Mapping[int, str]) -> Row:
    def text(side: Leaf | None) -> str:
        if side is None:
            return "none"
        if side.shape:
            return str(side)
        value = side.values.item()
        return words.get(value, number(value, 7)) if side.values.dtype.kind in "biu" else number(value, 7)

    mismatch, status = leaf.mismatch, ""
    if mismatch:
        status = mismatch.kind if mismatch.kind != "value" else "differs"
        if mismatch.kind == "value" and (mismatch.total or 0) > 1:
            status = f"{mismatch.wrong} of {mismatch.total} differ"
    # A bound, or a number that is 0 up to rounding, is shown as the mismatch has it; a coded number as its meaning.
    bare = mismatch and mismatch.kind == "value" and not leaf.shape and not words
    expected = mismatch.expected if mismatch and bare else text(leaf.expected)
    return Row(leaf.path, expected, text(leaf.got), text(leaf.idea) if leaf.idea else "", status)


def _drawings(
    leaves: Sequence[ComparedLeaf], shown: Counterexample | None, failed: CheckResult | None
) -> list[Drawing]:
    """Returns the figures of the first leaves that are arrays of the right shape."""
    drawn = [leaf for leaf in leaves if leaf.wrong is not None and leaf.shape and leaf.wrong.size]
    tolerance, words = (shown.tolerance if shown else None) or EXACT, _words(failed)
    return [
        Drawing(leaf.path, str(leaf.expected), _agreement(leaf), figure(leaf, tolerance, words))
        for leaf in drawn[:MOST_FIGURES]
    ]


def _agreement(leaf: ComparedLeaf) -> str:
    """Returns a sentence on the number of values that equal the misconception's."""
    if leaf.idea is None or leaf.got is None or not leaf.mismatch:
        return ""
    size = leaf.got.values.size
    if leaf.idea_agrees == size:
        return "This idea gives exactly your numbers."
    return f"This idea gives {leaf.idea_agrees} of your {size} numbers."


def _idea(leaves: Sequence[ComparedLeaf]) -> str:
    """Returns a sentence on the first wrong leaf: whether its numbers are the misconception's."""
    wrong = [leaf for leaf in leaves if leaf.mismatch and leaf.wrong is not None]
    return _agreement(wrong[0]) if wrong else ""


def _inputs(report: Report, failed: CheckResult | None) -> tuple[list[tuple[str, str]], list[Drawing]]:
    """Returns the failing case's inputs: those that are texts by name, and those that are arrays."""
    texts, arrays = list[tuple[str, str]](), list[Drawing]()
    case = failed.case if failed else None
    if case is None:
        return texts, arrays
    family = report.problem.cases.get(case.group)
    for name, value in (family.show(case.values) if family and family.show else case.values).items():
        if not isinstance(value, np.ndarray):
            texts.append((name, repr(value) if name in case.values else str(value)))
        elif not value.size:
            texts.append((name, f"{value.dtype}{list(value.shape)}"))
        else:
            leaf, start = Leaf(name, str(value.dtype), value), (0,) * value.ndim
            alone = ComparedLeaf(name, leaf, None, None, None, np.zeros(value.shape, bool), start, value.shape)
            arrays.append(Drawing(name, str(leaf), "", figure(alone)))
    return texts, arrays


def frames(text: str) -> Iterator[Frame]:
    """Yields the frames in a text of a traceback: lines that name a place, each followed by indented lines of code."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if not line.startswith("    ")]
    for start, end in pairwise([*starts, len(lines)]):
        place = _FRAME.fullmatch(lines[start])
        code = "\n".join(line[4:] for line in lines[start + 1 : end])
        yield Frame(lines[start], place["file"] if place else "", place["line"] if place else "", code)


def _tree(parts: Sequence[Part], outer: str) -> list[Branch]:
    """Returns the submodules directly below `outer`, the empty path for the module itself, each with those below it."""
    if not outer and parts and parts[0].path == WHOLE:
        return [Branch("the whole module", parts[0].state, _STATES[parts[0].state], _tree(parts[1:], ""))]
    below = [part for part in parts if not outer or part.path.startswith(outer + ".")]
    paths = {part.path for part in below}
    direct = [part for part in below if not any(part.path.startswith(path + ".") for path in paths)]
    return [
        Branch(part.path.removeprefix(f"{outer}."), part.state, _STATES[part.state], _tree(below, part.path))
        for part in direct
    ]  # fmt: skip


def code(text: Any) -> Markup:
    """Returns a sentence, escaped, with the parts in backquotes as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped


@cache
def environment(folder: Path = TEMPLATES) -> jinja2.Environment:
    """Returns the templates of a folder. They escape all values, and raise an error for a name that is missing."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    templates.filters |= {"code": code, "sentence": sentence, "counted": counted}
    return templates
