"""Compares what two files show in the same play: that of a learner, and the reference."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.exhibits import Bars, Exhibit, HeatMap, Lines, Story, Table

SAME = 1e-3
"""Numbers that are closer are the same: as a share of the right one in bars, of the largest in other exhibits."""
FAINT = 0.05
"""A larger difference, as such a share, is seen in a picture."""
TURNED = 0.1
"""The size of a difference of two stories, whose tokens are drawn: a small mistake turns them at some token."""


@dataclass(frozen=True)
class Difference:
    """A difference of two exhibits.

    Attributes:
        size: How large it is, as a share; 1 where texts differ that are not drawn.
        said: Where it is, and what the two files show there.
    """

    size: float
    said: str


def compared(own: Sequence[Exhibit], right: Sequence[Exhibit]) -> str:
    """Says in a paragraph how the exhibits of a file differ from those of a right one, which are known to be finite."""
    if [type(each) for each in own] != [type(each) for each in right]:
        return f"The play of a right file has other exhibits: {len(right)}, where yours has {len(own)}."
    differences = _differences(own, right)
    found = [(title, worst) for title, worst in differences if worst.size > SAME]
    if not found:
        return (
            "The play of a right file shows the same numbers. If your file fails, its mistake does not show here; the "
            "verdict names a case in which it does."
        )
    title, worst = max(found, key=lambda each: each[1].size)
    hardly = "" if worst.size > FAINT else f", but by {worst.size:.1%} at most: at this size, the mistake hardly shows"
    counted = f"{len(found)} of {len(differences)} exhibits" if len(differences) > 1 else "its exhibit"
    return (
        f"The play of a right file differs from yours in {counted}{hardly}. The largest difference is in “{title}”: "
        f"{worst.said}."
    )


def seen(own: Sequence[Exhibit], right: Sequence[Exhibit]) -> str:
    """Returns the largest difference that a picture shows, with the title of its exhibit; empty if there is none, or
    the exhibits are of other kinds."""
    if [type(each) for each in own] != [type(each) for each in right]:
        return ""
    nothing = ("", Difference(0.0, ""))
    title, worst = max(_differences(own, right), key=lambda each: each[1].size, default=nothing)
    return f"“{title}”: {worst.said}" if worst.size > FAINT else ""


def _differences(own: Sequence[Exhibit], right: Sequence[Exhibit]) -> list[tuple[str, Difference]]:
    """Returns the title and the largest difference of each pair of exhibits, except those that hold times."""
    pairs = [pair for pair in zip(own, right, strict=True) if not getattr(pair[1], "timed", False)]
    return [(mine.title, _largest(mine, theirs)) for mine, theirs in pairs]


def _largest(mine: Exhibit, theirs: Exhibit) -> Difference:
    """Returns the largest difference of two exhibits of one kind."""
    texts, expected_texts = list(_texts(mine)), list(_texts(theirs))
    for (place, text), (_, expected_text) in zip(texts, expected_texts, strict=False):
        if text != expected_text:
            size = TURNED if isinstance(mine, Story) else 1.0
            return Difference(size, f"{place}“{_shown(text)}” where a right file has “{_shown(expected_text)}”")
    own, right = list(_numbers(mine)), list(_numbers(theirs))
    if len(texts) != len(expected_texts) or [place for place, _ in own] != [place for place, _ in right]:
        return Difference(1.0, "it has other parts")
    largest = max((abs(value) for _, value in right if math.isfinite(value)), default=0.0) or 1.0
    found = (
        Difference(
            _apart(value, expected) / (max(abs(expected), SAME * largest) if isinstance(mine, Bars) else largest),
            f"{place}{value:.3g} where a right file has {expected:.3g}",
        )
        for (place, value), (_, expected) in zip(own, right, strict=True)
    )
    return max(found, key=lambda each: each.size, default=Difference(0.0, ""))


def _apart(value: float, expected: float) -> float:
    """Returns how far two numbers are apart: 0 for two that are not numbers, infinity for one."""
    if math.isfinite(value) and math.isfinite(expected):
        return abs(value - expected)
    return 0.0 if str(value) == str(expected) else math.inf


def _shown(text: str) -> str:
    return text.strip() or text.replace("\n", "⏎") or "nothing"


def _texts(exhibit: Exhibit) -> Iterator[tuple[str, str]]:
    """Yields the texts of an exhibit that are computed, each after the words that say where it is."""
    match exhibit:
        case Story():
            yield from (("the first other token is ", token.text) for token in exhibit.tokens)
            yield "the first other token is ", ""
        case HeatMap():
            for plane in exhibit.planes:
                for row, texts in zip(exhibit.rows, plane.texts, strict=False):
                    yield from (
                        (f"{row.strip()}, {column.strip()}: ", text)
                        for column, text in zip(exhibit.columns, texts, strict=True)
                    )
        case Table():
            for cells in exhibit.rows:
                yield from (
                    (f"{cells[0]}, {column}: " if index else "", cell)
                    for index, (column, cell) in enumerate(zip(exhibit.columns, cells, strict=True))
                )


def _numbers(exhibit: Exhibit) -> Iterator[tuple[str, float]]:
    """Yields the numbers of an exhibit, each after the words that say what it is."""
    match exhibit:
        case Story():
            shaded = ((token, token.value) for token in exhibit.tokens)
            yield from ((f"“{token.text.strip()}”: ", value) for token, value in shaded if value is not None)
        case HeatMap():
            for plane in exhibit.planes:
                name = f"{plane.name}, " if plane.name else ""
                for row, values in zip(exhibit.rows, plane.values, strict=True):
                    yield from (
                        (f"{name}{row.strip()}, {column.strip()}: ", value)
                        for column, value in zip(exhibit.columns, values, strict=True)
                    )
        case Lines():
            for line in exhibit.lines:
                yield from ((f"{line.name}, {exhibit.x} {x:g}: ", y) for x, y in zip(line.x, line.y, strict=True))
        case Bars():
            for bar in exhibit.bars:
                yield from (
                    (f"{bar.label}, {name}: ", value)
                    for name, value in zip(exhibit.names, (bar.value, bar.other), strict=True)
                    if value is not None
                )
