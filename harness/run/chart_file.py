"""Writes charts as an SVG file, which needs nothing else and follows the reader's choice of light or dark."""

from collections.abc import Iterator, Sequence
from html import escape

from commandline.chart import Chart, Drawn

WIDTH, LEFT, RIGHT = 700, 76, 24  # of the area of a chart, and of the space beside it
_TITLE, _ROW, _GAP, _FOOT = (
    44,
    22,
    22,
    52,
)  # heights: of the title, of a row of text, between two charts, of the axis below
_CHARACTER = 7.0  # the width of a letter in a legend, on average
# In light and in dark.
_COLORS = (
    ("#1559a8", "#6cb4ff"), ("#b04a00", "#ffab57"), ("#0b6b4f", "#5cd1a4"), ("#8b2fb0", "#d59bf0"),
    ("#7a6100", "#e0c35a"), ("#a8321c", "#ff9d85"), ("#00727f", "#5fd0de"), ("#5b5b66", "#b9b9c6"),
)  # fmt: skip
KINDS = len(_COLORS)


def _theme(which: int, paper: str, ink: str, quiet: str, grid: str) -> str:
    colors = "".join(
        f".k{index} {{ stroke: {pair[which]}; }} circle.k{index} {{ fill: {pair[which]}; }}\n"
        for index, pair in enumerate(_COLORS)
    )
    return (
        f".paper {{ fill: {paper}; }}\ntext {{ fill: {quiet}; }}\n.title, .name, .key {{ fill: {ink}; }}\n"
        f".grid {{ stroke: {grid}; }}\n.level {{ stroke: {quiet}; }}\n{colors}"
    )


_STYLE = f"""
text {{ font: 13px system-ui, "DejaVu Sans", sans-serif; }}
.title {{ font-size: 17px; font-weight: 600; }}
path {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
.grid {{ stroke-width: 1; }}
.faint {{ stroke-width: 1.2; opacity: 0.7; }}
.level {{ stroke-width: 1.5; stroke-dasharray: 8 5; }}
.dotted {{ stroke-dasharray: 2 4; }}
{_theme(0, "#ffffff", "#1d2129", "#59606e", "#e4e7ec")}
@media (prefers-color-scheme: dark) {{
{_theme(1, "#17191c", "#e8eaee", "#a2a9b8", "#30343a")}
}}
"""


def svg(title: str, charts: Sequence[Chart], axis: str, height: int) -> str:
    """Returns the text of a file with these charts, each of this height, below each other on one horizontal axis.

    `axis` names that axis. A chart has a legend unless it shows one line only, which has the name of the chart.
    """
    shapes, top = list[str](), _TITLE if title else _GAP // 2
    for chart in charts:
        keys = list(_legend(chart))
        top += _ROW + _ROW * (1 + keys[-1][1] if keys else 0)
        inner = [*_words(chart, keys), *_area(chart, height)]
        if chart is charts[-1]:
            inner += _axis(chart, axis, height)
        shapes.append(f'<g transform="translate({LEFT} {top})">\n' + "\n".join(inner) + "\n</g>")
        top += height + _GAP
    width, total = LEFT + WIDTH + RIGHT, top - _GAP + _FOOT
    heading = f'<text class="title" x="{LEFT}" y="30">{escape(title)}</text>\n' if title else ""
    summary = " ".join(f"{chart.title}. {chart.summary}." for chart in charts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" width="{width}" height="{total}" '
        f'role="img">\n'
        f"<title>{escape(title or charts[0].title)}</title>\n<desc>{escape(summary)}</desc>\n<style>{_STYLE}</style>\n"
        f'<rect class="paper" width="{width}" height="{total}"/>\n{heading}' + "\n".join(shapes) + "\n</svg>\n"
    )


def _x(left: float) -> str:
    return f"{left * WIDTH / 100:.1f}"


def _legend(chart: Chart) -> Iterator[tuple[float, int, str, str, bool]]:
    """Yields where each name stands, its row, its text, the class of its line, and whether the line has dots."""
    names = [(line.label, line.kind, bool(line.dots)) for line in chart.lines]
    names += [(text, _level(index), False) for index, (_, text, _) in enumerate(chart.levels)]
    if [name for name, _, _ in names] == [chart.title]:
        return
    left, row = 0.0, 0
    for name, kind, has_dots in names:
        needed = 34 + _CHARACTER * len(name)
        if left and left + needed > WIDTH:
            left, row = 0.0, row + 1
        yield left, row, name, kind, has_dots
        left += needed + 24


def _level(index: int) -> str:
    return "level dotted" if index % 2 else "level"


def _words(chart: Chart, keys: Sequence[tuple[float, int, str, str, bool]]) -> Iterator[str]:
    """Yields the name of a chart and its legend, above the area."""
    rows = 1 + keys[-1][1] if keys else 0
    yield f'<text class="name" y="{-_ROW * rows - 10}">{escape(chart.title)}</text>'
    for left, row, name, kind, has_dots in keys:
        y = -_ROW * (rows - 1 - row) - 10
        yield f'<path class="{kind}" d="M{left:.0f} {y - 4}h26"/>'
        if has_dots:
            yield f'<circle class="{kind}" cx="{left + 13:.0f}" cy="{y - 4}" r="3"/>'
        yield f'<text class="key" x="{left + 33:.0f}" y="{y}">{escape(name)}</text>'


def _area(chart: Chart, height: int) -> Iterator[str]:
    """Yields the grid with the numbers beside it, and the lines."""

    def y(top: float) -> str:
        return f"{top * height / 100:.1f}"

    for text, top in chart.y_ticks:
        yield f'<path class="grid" d="M0 {y(top)}h{WIDTH}"/>'
        yield f'<text x="-9" y="{y(top)}" dy="4.5" text-anchor="end">{text}</text>'
    for _, left in chart.x_ticks:
        yield f'<path class="grid" d="M{_x(left)} 0v{height}"/>'
    for index, (_, _, top) in enumerate(chart.levels):
        yield f'<path class="{_level(index)}" d="M0 {y(top)}h{WIDTH}"/>'
    for line in chart.lines:
        yield _line(line, [f"{_x(left)} {y(top)}" for left, top in line.points])
        for left, top in line.dots:
            yield f'<circle class="{line.kind}" cx="{_x(left)}" cy="{y(top)}" r="3"/>'


def _line(line: Drawn, places: list[str]) -> str:
    return f'<path class="{line.kind}" d="M{"L".join(places)}"/>'


def _axis(chart: Chart, name: str, height: int) -> Iterator[str]:
    """Yields the numbers and the name of the horizontal axis."""
    for text, left in chart.x_ticks:
        yield f'<text x="{_x(left)}" y="{height + 20}" text-anchor="middle">{text}</text>'
    yield f'<text class="name" x="{WIDTH / 2:.0f}" y="{height + 41}" text-anchor="middle">{escape(name)}</text>'
