"""The claims of a page about numbers and libraries, and the tested examples that prove them.

Each number of the worked sketch must occur in a `>>>` example, on the page or beside the reference, in a `[[claim]]`.
The same holds for each sentence about something that raises, returns or is dropped. A claim without an example gives
the reason why it has none.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.course import catalog, page
from grader.course.promises import one_line, sentences
from grader.errors import CourseError
from grader.problem import Problem

SKETCH = "A worked sketch"
SECTIONS = ("Why this matters", "The ideas", SKETCH, "Pitfalls")  # the other sections hold promises, which are graded

_SAYING = re.compile(
    r"\b(?:raises|returns|(?:is|are) (?:dropped|ignored)|(?:is|are|gives|give|becomes) `?NaN)\b", re.IGNORECASE
)
_CODE = re.compile(r"```.*?```|``.+?``|`.+?`", re.DOTALL)
_FENCED = re.compile(r"^ *(`{3,})[^\n]*\n(.*?)^ *\1$", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"^ *>>> .*?(?=^ *$|^ *```|\Z)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class Claim:
    """Sentences of a page, by their first words, and the example that proves them, or why they have none."""

    page: tuple[str, ...]
    example: str = ""
    because: str = ""


def claims(problem: Problem) -> list[Claim]:
    """Returns the claims beside the reference, in order. Raises CourseError if one is malformed."""
    path = catalog.solution_path(problem).with_suffix(".toml")
    found = []
    for number, row in enumerate(catalog.misconceptions_file(problem).get("claim", []), 1):
        begins = row.get("page", [])
        begins = [begins] if isinstance(begins, str) else begins
        if set(row) not in ({"page", "example"}, {"page", "because"}) or not begins:
            raise CourseError(f"{path}: claim {number} must have `page`, and either `example` or `because`.")
        found.append(Claim(tuple(map(one_line, begins)), row.get("example", ""), row.get("because", "")))
    return found


def examples(problem: Problem) -> str:
    """Returns the examples of all claims, as the text of a page."""
    return "\n\n".join(claim.example.strip("\n") for claim in claims(problem) if claim.example)


def faults(problem: Problem, entries: Sequence[Claim]) -> Iterator[str]:
    """Yields the numbers and sentences of the page without evidence, and the claims that prove nothing on it."""
    texts = page.sections(problem)
    units = {title: _units(texts.get(title, "")) for title in SECTIONS}
    every = [unit for title in SECTIONS for unit in units[title]]
    yield from _numbers_without_example(units[SKETCH], _evidence(problem), entries)
    yield from _sentences_without_claim(every, entries)
    yield from _claims_of_nothing(every, entries)


def _numbers_without_example(sketch: Sequence[str], evidence: str, entries: Sequence[Claim]) -> Iterator[str]:
    """Yields a fault for each unit of `sketch` with a number that `evidence` lacks, unless a claim says why."""
    shown = {_plain(number) for number in _NUMBER.findall(evidence)}
    for unit in sketch:
        missing = [number for number in _NUMBER.findall(unit) if _plain(number) not in shown]
        if missing and not _claimed(unit, entries, without=True):
            yield f"no example has the number {missing[0]} of the worked sketch: {unit}"


def _sentences_without_claim(units: Sequence[str], entries: Sequence[Claim]) -> Iterator[str]:
    """Yields a fault for each of `units` about something that raises, returns or is dropped, and that has no claim."""
    for unit in units:
        if _SAYING.search(_CODE.sub("`", unit)) and not _claimed(unit, entries):
            yield f"no [[claim]] for the page's sentence: {unit}"


def _claims_of_nothing(units: Sequence[str], entries: Sequence[Claim]) -> Iterator[str]:
    """Yields a fault for each claim of a sentence that is not in `units`, or whose example shows nothing."""
    for entry in entries:
        for begin in entry.page:
            if not any(unit.startswith(begin) for unit in units):
                yield f"the page has no sentence that begins so, for a [[claim]]: {begin}"
        if entry.example and ">>> " not in entry.example:
            yield f"the example of a [[claim]] has no `>>>` line: {entry.page[0]}"


def _claimed(unit: str, entries: Sequence[Claim], *, without: bool = False) -> bool:
    """Returns whether a claim names a unit; `without` counts only claims with a reason why they have no example."""
    return any(unit.startswith(begin) for entry in entries if entry.because or not without for begin in entry.page)


def _evidence(problem: Problem) -> str:
    """Returns all examples, of the page and of its claims, with their output."""
    return "\n".join([*_EXAMPLE.findall(catalog.page_text(problem)), examples(problem)])


def _units(markdown: str) -> list[str]:
    """Returns the sentences of a section, and the lines of its drawings and tables. Examples prove themselves."""
    text = _EXAMPLE.sub("", markdown)
    drawn = [one_line(line) for block in _FENCED.finditer(text) for line in block[2].splitlines() if line.strip()]
    return [*sentences(text), *drawn]


def _plain(number: str) -> str:
    """Returns a number without commas between its thousands, and without zeros at the end of its decimals."""
    plain = number.replace(",", "").lower()
    return plain.rstrip("0").rstrip(".") if "." in plain and "e" not in plain else plain
