"""The promises and the pitfalls of a page, and the checks and misconceptions in which they are graded."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.course import catalog, page
from grader.course.catalog import Misconception
from grader.course.course import STYLES
from grader.errors import CourseError
from grader.problem import Problem

SECTIONS = ("The problem", "Inputs", "Output")
WORDS = ("at least", "at most", "greater than", "less than", "may", "must", "never", "any", "not required")

_PROMISING = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_FENCE = re.compile(r"^ *(`{3,}).*?^ *\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+).+?\1")
_ITEM = re.compile(r"^(?:[-*+]|\d+\.) +")
_TABLE_RULE = re.compile(r"[|:\- ]+")
# A sentence ends at a period, after quotes and brackets that belong to it, if what follows does not continue it.
_END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bcf\.)(?<!\bvs\.)(?<=[.!?])([)\"'*_]*) +(?![a-z])")


@dataclass(frozen=True)
class Promise:
    """A sentence of a page, the check with a case that contains the promise, and the evidence that the check sees it.

    The evidence is a misconception that the check rejects (`broken_by`), or a correct program in another style that
    makes use of a permission (`kept_by`, its file name).
    """

    page: str
    check: str
    broken_by: str = ""
    kept_by: str = ""


def sentences(markdown: str) -> list[str]:
    """Returns the sentences outside code blocks, on one line each. Items of lists and cells of tables are sentences of
    their own."""
    return [sentence for block in _blocks(_FENCE.sub("\n", markdown)) for sentence in _split(block)]


def bullets(markdown: str) -> list[str]:
    """Returns the items of the outermost lists, on one line each."""
    items: list[str] = []
    for line in markdown.splitlines():
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line))
        elif items and line.startswith(" "):
            items[-1] += f" {line}"
    return [one_line(item) for item in items]


def promising(problem: Problem) -> list[str]:
    """Returns the sentences of the page that promise something about inputs, outputs or the code."""
    texts = page.sections(problem)
    found = [sentence for title in SECTIONS for sentence in sentences(texts.get(title, ""))]
    return [sentence for sentence in dict.fromkeys(found) if _PROMISING.search(_CODE.sub("`", sentence))]


def pitfalls(problem: Problem) -> list[str]:
    """Returns the items of the page's section `Pitfalls`."""
    return bullets(page.sections(problem).get("Pitfalls", ""))


def promises(problem: Problem) -> list[Promise]:
    """Returns the entries of the problem's promises, in order. Raises CourseError if one is broken."""
    rows = catalog.misconceptions_file(problem).get("promise", [])
    path = catalog.solution_path(problem).with_suffix(".toml")
    for number, row in enumerate(rows, 1):
        if not {"page", "check"} <= set(row) <= {"page", "check", "broken_by", "kept_by"}:
            raise CourseError(
                f"{path}: promise {number} must have page, check, and either broken_by or kept_by; it has "
                f"{', '.join(row)}."
            )
        if not all(isinstance(value, str) for value in row.values()):
            raise CourseError(f"{path}: the values of promise {number} must be strings.")
    return [Promise(**{**row, "page": one_line(row["page"])}) for row in rows]


def covered(sentence: str, entries: Sequence[Promise]) -> bool:
    """Returns whether a promise has an entry."""
    return any(entry.page == sentence for entry in entries)


def faults(problem: Problem, entries: Sequence[Promise]) -> Iterator[str]:
    """Yields the faults of the entries, and the promises that have no entry."""
    found = promising(problem)
    without_styles = not (problem.home / STYLES).is_dir()  # an installed course leaves the folder out
    known = {
        "check": [check.name for check in problem.checks],
        "misconception": [misconception.name for misconception in catalog.misconceptions(problem)],
        "correct program in another style": [path.name for path in catalog.styles(problem)],
    }
    for sentence in found:
        if not covered(sentence, entries):
            yield f"no [[promise]] for the page's sentence: {sentence}"
    for entry in entries:
        if entry.page not in found:
            yield f"the page has no such promise: {entry.page}"
        if bool(entry.broken_by) == bool(entry.kept_by):
            yield f"give either broken_by or kept_by, not both or neither, for the promise: {entry.page}"
        for kind, name in zip(known, (entry.check, entry.broken_by, entry.kept_by), strict=True):
            if name and name not in known[kind] and not (without_styles and name == entry.kept_by):
                yield f"there is no {kind} {name!r}, which is named for the promise: {entry.page}"


def of_pitfall(bullet: str, misconceptions: Sequence[Misconception]) -> list[Misconception]:
    """Returns the misconceptions that a pitfall describes."""
    return [item for item in misconceptions if any(bullet.startswith(one_line(start)) for start in item.pitfall)]


def pitfall_faults(problem: Problem) -> Iterator[str]:
    """Yields the pitfalls without a misconception, and the misconceptions that name no pitfall of the page, or several
    at once."""
    found, misconceptions = pitfalls(problem), catalog.misconceptions(problem)
    for bullet in found:
        if not of_pitfall(bullet, misconceptions):
            yield f"no misconception has the pitfall: {bullet}"
    for misconception in misconceptions:
        for start in misconception.pitfall:
            if (count := sum(bullet.startswith(one_line(start)) for bullet in found)) != 1:
                yield (
                    f"a `pitfall` of {misconception.name!r} must begin one pitfall of the page; it begins {count}: "
                    f"{start}"
                )


def one_line(text: str) -> str:
    """Joins the lines of a text, with single blanks."""
    return " ".join(text.split())


def _blocks(markdown: str) -> Iterator[str]:
    """Yields paragraphs, items of lists, and cells of tables, on one line each."""
    block: list[str] = []
    for line in [*map(str.strip, markdown.splitlines()), ""]:
        in_table = line.startswith("|")
        if not line or in_table or _ITEM.match(line):
            if block:
                yield one_line(" ".join(block))
            block = []
        if in_table:
            if not _TABLE_RULE.fullmatch(line):
                yield from (cell.strip() for cell in line.strip("|").split("|"))
        elif line:
            block.append(_ITEM.sub("", line))


def _split(block: str) -> list[str]:
    """Returns the sentences of a block. A sentence never ends within code."""
    masked = _CODE.sub(lambda code: "`" * len(code[0]), block)
    ends = [match.end(1) for match in _END.finditer(masked)]
    parts = [block[start:end].strip() for start, end in zip([0, *ends], [*ends, len(block)], strict=True)]
    return [part for part in parts if part]
