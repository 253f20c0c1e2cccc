"""Line charts as HTML: the lines are SVG, which stretches, and the labels text, which does not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

_MOST_POINTS = 400
_LOG_TICKS = [factor * 10.0**power for power in range(-6, 7) for factor in (1, 1.5, 2, 3, 4, 5, 6, 8)]


@dataclass(frozen=True)
class Line:
    """A line of a chart. `kind` is the CSS class that gives its color."""

    label: str
    kind: str
    points: Sequence[Point]
    has_dots: bool = False


@dataclass(frozen=True)
class Drawn:
    """A line as coordinates, in percent of the chart's area from the top left."""

    label: str
    kind: str
    path: str
    dots: list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A chart, ready for its template."""

    title: str
    summary: str
    lines: list[Drawn]
    levels: list[tuple[str, str, float]]  # label, text, from the top
    x_ticks: list[tuple[str, float]]
    y_ticks: list[tuple[str, float]]


def draw(
    title: str, lines: Sequence[Line], *, last_step: float, levels: dict[str, float] | None = None, is_log: bool = False,
    axis: str = "step",
) -> Chart | None:  # fmt: skip
    """A chart of values by step, from 0 to `last_step`. `levels` are lines to compare with. None if there is no value.

    `axis` is the name of the horizontal axis, if it is not steps.
    """
    shown = [Line(line.label, line.kind, _thinned(line.points), line.has_dots) for line in lines if line.points]
    if not shown:
        return None
    levels = levels or {}
    values = [value for line in shown for _, value in line.points] + list(levels.values())
    is_log = is_log and min(values) > 0
    low, high = (min(values), max(values)) if is_log else (min(0.0, *values), max(values))
    if is_log:
        low, high = low / 1.06, high * 1.06
    elif high > low:
        high += 0.06 * (high - low)
    else:
        high = low + 1
    scale = math.log if is_log else float

    def top(value: float) -> float:
        return round(100 - 100 * (scale(value) - scale(low)) / (scale(high) - scale(low)), 2)

    def left(step: float) -> float:
        return round(100 * step / (last_step or 1), 2)

    drawn = list[Drawn]()
    for line in shown:
        places = [(left(step), top(value)) for step, value in line.points]
        path = "M" + "L".join(f"{x} {y}" for x, y in places)
        drawn.append(Drawn(line.label, line.kind, path, places if line.has_dots else places[-1:] * (len(places) == 1)))
    y_ticks = [tick for tick in _LOG_TICKS if low <= tick <= high] if is_log else []
    if len(y_ticks) < 3:
        y_ticks = [tick for tick in _ticks(low, high) if low <= tick <= high]
    summary = "; ".join(
        f"{line.label}: "
        + ", ".join(f"{_number(value)} at {axis} {step:,g}" for step, value in (line.points[0], line.points[-1]))
        for line in shown
    )
    return Chart(
        title, summary, drawn,
        [(name, f"{name} {value:.2f}", top(value)) for name, value in levels.items()],
        [(f"{tick:,g}", left(tick)) for tick in _ticks(0, last_step) if tick <= last_step],
        [(_number(tick), top(tick)) for tick in y_ticks],
    )  # fmt: skip


def _ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from `low` to `high`."""
    raw = (high - low) / about or 1.0
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most `_MOST_POINTS` points: means of neighbors."""
    size = math.ceil(len(points) / _MOST_POINTS)
    if size <= 1:
        return list(points)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _number(value: float) -> str:
    """A number for a label: 12k, 2.5k, 0.5, 3e-5."""
    if abs(value) >= 1000:
        return f"{value / 1e6:,.3g}M" if abs(value) >= 1e6 else f"{value / 1000:,.3g}k"
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")
