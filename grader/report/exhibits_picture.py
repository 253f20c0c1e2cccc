"""Draws a small picture of an exhibit, as SVG without text, for a play on the map."""

import math
from collections.abc import Iterator

from markupsafe import Markup

from grader.exhibits import Bars, Exhibit, HeatMap, Lines, Story, Table

WIDTH, HEIGHT = 48.0, 27.0
_LINE, _GAP = 4.5, 1.2  # the height of a line of text, and the space between two words
_CELLS = 12  # of a heat map, in each direction
_BARS = 6
_POINTS = 40


def render(exhibit: Exhibit) -> Markup:
    """Returns the picture. Its shapes have the color of the text around it, or the classes `k0` to `k5` of curves and
    bars."""
    match exhibit:
        case Story():
            shapes = _words([(len(token.text), _share(token.value, exhibit.strongest)) for token in exhibit.tokens])
        case HeatMap():
            shapes = _cells(exhibit)
        case Lines():
            shapes = _curves(exhibit)
        case Bars():
            shapes = _bars(exhibit)
        case Table():
            shapes = _words([(len(cell), 0.4) for row in exhibit.rows for cell in row])
    inner = Markup("").join(shapes)
    return Markup('<svg class="picture" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true">{}</svg>').format(
        f"{WIDTH:g}", f"{HEIGHT:g}", f"{WIDTH:g}", f"{HEIGHT:g}", inner
    )


def _rect(x: float, y: float, width: float, height: float, opacity: float) -> Markup:
    numbers = (f"{value:.2f}" for value in (x, y, width, height, opacity))
    return Markup('<rect x="{}" y="{}" width="{}" height="{}" fill-opacity="{}"/>').format(*numbers)


def _share(value: float | None, most: float) -> float:
    """Returns the opacity of a token, from 0.25 for no value to 1 for `most`."""
    share = 0.0 if value is None or not math.isfinite(value) else min(max(value / most, 0.0), 1.0)
    return 0.25 + 0.75 * share


def _words(words: list[tuple[int, float]]) -> Iterator[Markup]:
    """Draws words as bars in lines, by their lengths and shades. Leaves out words that do not fit."""
    x = y = 0.0
    for length, shade in words:
        width = max(1.0, min(length * 0.9, WIDTH / 2))
        if x + width > WIDTH:
            x, y = 0.0, y + _LINE
        if y + _LINE > HEIGHT:
            return
        yield _rect(x, y, width, _LINE - 1.8, shade)
        x += width + _GAP


def _cells(exhibit: HeatMap) -> Iterator[Markup]:
    values = exhibit.planes[0].values if exhibit.planes else ()
    rows = values[:: math.ceil(len(values) / _CELLS) or 1]
    for i, row in enumerate(rows):
        cells = row[:: math.ceil(len(row) / _CELLS) or 1]
        width, height = min(WIDTH, HEIGHT * len(cells) / len(rows)) / len(cells), HEIGHT / len(rows)
        for j, value in enumerate(cells):
            share = (value - exhibit.low) / (exhibit.high - exhibit.low) if math.isfinite(value) else 0.0
            yield _rect(j * width, i * height, width * 0.92, height * 0.92, 0.08 + 0.92 * min(max(share, 0.0), 1.0))


def _curves(exhibit: Lines) -> Iterator[Markup]:
    points = [(x, y) for line in exhibit.lines for x, y in zip(line.x, line.y, strict=True) if _finite(x, y)]
    if not points:
        return
    (left, right), (low, high) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
    for index, line in enumerate(exhibit.lines):
        step = math.ceil(len(line.x) / _POINTS) or 1
        pairs = [(x, y) for x, y in zip(line.x[::step], line.y[::step], strict=True) if _finite(x, y)]
        drawn = (
            f"{1 + (WIDTH - 2) * (x - left) / ((right - left) or 1):.2f} "
            f"{HEIGHT - 1 - (HEIGHT - 2) * (y - low) / ((high - low) or 1):.2f}"
            for x, y in pairs
        )
        if pairs:
            yield Markup('<path class="k{}" d="M{}"/>').format(index, "L".join(drawn))


def _bars(exhibit: Bars) -> Iterator[Markup]:
    values = [bar.value for bar in exhibit.bars[:_BARS]]
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    for index, value in enumerate(values):
        height = HEIGHT / len(values)
        width = WIDTH * abs(value) / most if math.isfinite(value) else 0.0
        yield _rect(0, index * height, width, height * 0.7, 0.8)


def _finite(x: float, y: float) -> bool:
    return math.isfinite(x) and math.isfinite(y)
