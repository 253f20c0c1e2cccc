"""Line charts as HTML: the lines are SVG, which stretches, and the labels text, which does not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]

_MOST_POINTS = 400
_LEAST_GAP = 0.1  # of the height, between two labels
_FACTORS = ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 5), (1,))  # of the powers of ten that label a logarithmic axis
_STEPS = (1, 2, 5, 10)  # of ticks, times a power of ten
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


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
    """A chart of values by step, from 0 or the first negative step to `last_step`. `levels` are lines to compare with. None if
    there is no value.

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

    first_step = min(0.0, *(step for line in shown for step, _ in line.points))

    def left(step: float) -> float:
        return round(100 * (step - first_step) / ((last_step - first_step) or 1), 2)

    drawn = list[Drawn]()
    for line in shown:
        places = [(left(step), top(value)) for step, value in line.points]
        path = "M" + "L".join(f"{x} {y}" for x, y in places)
        drawn.append(Drawn(line.label, line.kind, path, places if line.has_dots else places[-1:] * (len(places) == 1)))
    y_ticks = _log_ticks(low, high) if is_log else []
    if len(y_ticks) < 3:
        y_ticks = max(y_ticks, _ticks(low, high, sorted((*_STEPS, 2.5))), key=len)
    x_ticks = _ticks(first_step, last_step)
    summary = "; ".join(
        f"{line.label}: "
        + ", ".join(f"{_labels([value])[0]} at {axis} {step:,g}" for step, value in (line.points[0], line.points[-1]))
        for line in shown
    )
    return Chart(
        title, summary, drawn,
        [(name, f"{name} {value:.2f}", top(value)) for name, value in levels.items()],
        [(text, left(tick)) for text, tick in zip(_labels(x_ticks), x_ticks, strict=True)],
        [(text, top(tick)) for text, tick in zip(_labels(y_ticks), y_ticks, strict=True)],
    )  # fmt: skip


def _ticks(low: float, high: float, steps: Sequence[float] = _STEPS) -> list[float]:
    """Round numbers from `low` to `high`, about five of them, in one of these steps times a power of ten."""
    raw = (high - low) / 5 or 1.0
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in steps if factor * magnitude >= raw)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, both above 0, as many as a logarithmic axis has room for."""
    decades = math.log10(high / low)
    factors = next((each for each in _FACTORS if _ratio(each) >= _LEAST_GAP * decades), _FACTORS[-1])
    every = math.ceil(_LEAST_GAP * decades) if factors == _FACTORS[-1] else 1  # powers of ten
    powers = range(math.floor(math.log10(low) / every) * every, math.ceil(math.log10(high)) + 1, every)
    return [tick for power in powers for factor in factors if low <= (tick := factor * 10.0**power) <= high]


def _ratio(factors: Sequence[float]) -> float:
    """The smallest distance of two neighbors, in decades."""
    return min(math.log10(after / before) for before, after in pairwise((*factors, 10)))


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most `_MOST_POINTS` points: means of neighbors."""
    size = math.ceil(len(points) / _MOST_POINTS)
    if size <= 1:
        return list(points)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _labels(values: Sequence[float]) -> list[str]:
    """Numbers as labels of one axis, written in one way: 2,500 and 5,000; 5k and 12.5k; 0.5 and 1; 5e-5 and 1e-4."""
    sizes = [abs(value) for value in values if value]
    most, least = max(sizes, default=1.0), min(sizes, default=1.0)
    return [_label(value, has_units=most >= 1e4, has_exponents=least < 1e-3) for value in values]


def _label(value: float, *, has_units: bool, has_exponents: bool) -> str:
    if has_exponents and value:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    if has_units:
        size, unit = next((each for each in _UNITS if abs(value) >= each[0]), (1.0, ""))
        return f"{float(f'{value / size:.3g}'):,g}{unit}"
    return f"{float(f'{value:.4g}'):,g}"
