"""Exhibits as HTML, for the studio, notebooks and files: pictures with the table of their numbers, readable without
scripts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from commandline import chart
from grader.course.plays import Offer
from grader.exhibits import Bars, Ending, Exhibit, HeatMap, Lines, Story, Table, Token
from grader.report import html_report
from grader.report.exhibits_terminal import amount, ends, percent, surprising, table, visible
from grader.report.grids import HATCHED, MOST_NUMBERS, STEPS, Cell, Panel, Scale


@dataclass(frozen=True)
class _Span:
    """A token on the page: the classes of its shade, and the text about it."""

    text: str
    shade: str
    title: str


@dataclass(frozen=True)
class _Measure:
    """One bar: the name of its series, its value as text, and its length as a share of the longest, in percent."""

    owner: str
    text: str
    length: float
    kind: str


def document(title: str, heading: str, exhibits: Sequence[Exhibit], end: Ending) -> str:
    """Returns a whole page with the exhibits of a play and its end, which needs no other file."""
    return html_report.page(title, heading, article(title, exhibits, end))


def _made(macro: str, *values: Any) -> Markup:
    """Returns what a macro of the template makes of `values`."""
    made: Markup = getattr(html_report.environment().get_template("exhibits.jinja").module, macro)(*values)
    return made


def article(title: str, exhibits: Sequence[Exhibit], end: Ending) -> str:
    """Returns the exhibits of a play and its end as one `<article>`, to be shown with the STYLE of `html`. The title
    may be empty."""
    figures = [*map(render, exhibits), ending(end)]
    return _made("article", title, figures)


def ending(end: Ending) -> str:
    """Returns the end of a play as HTML, in the form of a report's error. Empty if there is nothing to say."""
    return _made("ending", end.said, list(html_report.frames(end.frames)), html_report.last(end.printed), end.compared)


def offered(offer: Offer | None) -> str:
    """Returns the offer at the end of a play as HTML, with the command on a line of its own. Empty if there is none."""
    return _made("offered", offer.said, offer.command) if offer else ""


def render(exhibit: Exhibit) -> str:
    """Returns the exhibit as one `<figure>`, to be shown with the STYLE of `html` inside of an `article`. All text in
    it is escaped."""
    heads, rows = table(exhibit)
    match exhibit:
        case Story():
            named = [_said(token, exhibit) for token in surprising(exhibit)]
            picture = _made("story", exhibit, [_span(exhibit, i) for i in range(len(exhibit.tokens))], named)
        case HeatMap():
            panels = _panels(exhibit)
            shades = {cell.shade for panel in panels for _, cells in panel.rows for cell in cells}
            note = HATCHED if shades & {"over", "under", "nan"} else ""
            picture = _made("maps", exhibit, panels, amount(exhibit.low), amount(exhibit.high), note)
        case Lines():
            picture = _made("lines", exhibit, _chart(exhibit), {line.name: ends(line) for line in exhibit.lines})
        case Bars():
            picture = _made("bars", exhibit, _measures(exhibit))
        case Table():
            picture = _made("rows", heads, rows, exhibit.title)
    behind = not isinstance(exhibit, Table)
    return _made("figure", exhibit, picture, heads, rows, behind)


def _span(story: Story, index: int) -> _Span:
    token = story.tokens[index]
    classes = ["given"] if index < story.given else []
    said = [visible(token.text)]
    if token.kind is not None:
        classes.append(f"k{token.kind}")
        said.append(story.kinds[token.kind])
    elif story.separated:
        classes.append(f"k{index % 2}")
    elif token.value is not None and math.isfinite(token.value):
        classes.append(f"t{round(STEPS * min(max(token.value / story.strongest, 0.0), 1.0))}")
    if token.value is not None:
        said.append(f"{story.meaning or 'value'} {amount(token.value)}")
    if token.others:
        said.append("likeliest: " + ", ".join(f"{visible(text)} {percent(share)}" for text, share in token.others[:5]))
    return _Span(token.text, " ".join(classes), "; ".join(said))


def _said(token: Token, story: Story) -> str:
    likelier = ", ".join(
        f"`{visible(text)}` {percent(share)}" for text, share in token.others[:2] if text != token.text
    )
    return f"`{visible(token.text)}` {amount(token.value or 0.0)} (likelier: {likelier})"


def _panels(exhibit: HeatMap) -> list[Panel]:
    scale = Scale(exhibit.low, exhibit.high)
    columns = [visible(column) for column in exhibit.columns]
    panels = []
    for plane in exhibit.planes:
        rows = []
        for row, label in enumerate(map(visible, exhibit.rows)):
            cells = []
            for column, value in enumerate(plane.values[row]):
                written = amount(value) if len(columns) <= MOST_NUMBERS else ""
                text = visible(plane.texts[row][column]) if plane.texts else written
                cells.append(
                    Cell(text, scale.shade(_within(value, exhibit)), f"{label}, {columns[column]}: {amount(value)}")
                )
            rows.append((label, cells))
        panels.append(Panel(plane.name, columns, rows))
    return panels


def _within(value: float, exhibit: HeatMap) -> float:
    """Returns the value. Moves a value to the end of the scale if it exceeds it by rounding alone, such as a cosine of
    1.0000001."""
    nearest = min(max(value, exhibit.low), exhibit.high)
    return nearest if abs(value - nearest) < 1e-5 * (exhibit.high - exhibit.low) else value


def _chart(exhibit: Lines) -> chart.Chart | None:
    curves = [
        chart.Line(
            line.name,
            f"k{index}",
            [(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)],
            has_dots=len(line.x) <= 12,
        )
        for index, line in enumerate(exhibit.lines)
    ]
    last = max((x for line in exhibit.lines for x in line.x), default=1.0)
    return chart.draw(exhibit.title, curves, last_step=last, is_log=exhibit.log, axis=exhibit.x)


def _measures(exhibit: Bars) -> list[tuple[str, list[_Measure]]]:
    values = [value for bar in exhibit.bars for value in (bar.value, bar.other) if value is not None]
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    compared = any(bar.other is not None for bar in exhibit.bars)

    def measure(index: int, value: float) -> _Measure:
        length = round(100 * abs(value) / most, 1) if math.isfinite(value) else 0.0
        return _Measure(exhibit.names[index] if compared else "", amount(value), length, f"k{index}")

    return [
        (bar.label, [measure(i, value) for i, value in enumerate((bar.value, bar.other)) if value is not None])
        for bar in exhibit.bars
    ]
