"""Line charts as coordinates, which pages and files draw in their own ways."""

import math
from collections.abc import Callable, Sequence
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
    """Holds a line of a chart. `kind` is the CSS class that gives its color."""

    label: str
    kind: str
    points: Sequence[Point]
    has_dots: bool = False


@dataclass(frozen=True)
class Drawn:
    """Holds a line as coordinates, in percent of the chart's area from the top left."""

    label: str
    kind: str
    points: list[Point]
    dots: list[Point]


@dataclass(frozen=True)
class Chart:
    """Holds a chart, ready for its template."""

    title: str
    summary: str
    lines: list[Drawn]
    levels: list[tuple[str, str, float]]  # label, text, from the top
    x_ticks: list[tuple[str, float]]
    y_ticks: list[tuple[str, float]]


@dataclass(frozen=True)
class _Scale:
    """Places the values of an axis."""

    low: float
    high: float
    is_log: bool

    def percent(self, value: float) -> float:
        if self.is_log:
            return 100 * math.log(value / self.low) / (math.log(self.high / self.low) or 1)
        return 100 * (value - self.low) / ((self.high - self.low) or 1)

    def ticks(self, steps: Sequence[float]) -> list[float]:
        ticks = _log_ticks(self.low, self.high) if self.is_log else []
        return ticks if len(ticks) >= 3 else max(ticks, _ticks(self.low, self.high, steps), key=len)


def draw(
    title: str,
    lines: Sequence[Line],
    *,
    last_step: float,
    levels: dict[str, float] | None = None,
    is_log: bool = False,
    from_zero: bool = True,
    axis: str = "step",
    is_axis_log: bool = False,
) -> Chart | None:
    """Lays out a chart of values by step, from 0 or the first negative step to `last_step`. None if there is no value.

    `levels` are lines to compare with. A linear chart includes the value 0 if `from_zero`. `axis` is the name of the
    horizontal axis, if it is not steps. Where that is logarithmic, it begins at the first step.
    """
    shown = [Line(line.label, line.kind, _thinned(line.points), line.has_dots) for line in lines if line.points]
    if not shown:
        return None
    levels = levels or {}
    steps = [step for line in shown for step, _ in line.points]
    values = [value for line in shown for _, value in line.points] + list(levels.values())
    x = _Scale(min(steps) if is_axis_log else min(0.0, *steps), last_step, is_axis_log)
    y = _vertical(values, is_log and min(values) > 0, from_zero)

    def place(step: float, value: float) -> Point:
        return round(x.percent(step), 2), round(100 - y.percent(value), 2)

    x_ticks, y_ticks = x.ticks(_STEPS), y.ticks(sorted((*_STEPS, 2.5)))
    if all(step.is_integer() for step in map(float, steps)):
        x_ticks = [tick for tick in x_ticks if tick.is_integer()]
    return Chart(
        title, "; ".join(_summary(line, axis) for line in shown), [_drawn(line, place) for line in shown],
        [(name, f"{name} {value:.2f}", place(x.low, value)[1]) for name, value in levels.items()],
        [(text, place(tick, y.low)[0]) for text, tick in zip(_labels(x_ticks), x_ticks, strict=True)],
        [(text, place(x.low, tick)[1]) for text, tick in zip(_labels(y_ticks), y_ticks, strict=True)],
    )  # fmt: skip


def _drawn(line: Line, place: Callable[[float, float], Point]) -> Drawn:
    """Places a line by `place`. A single point is a dot, because a path of one point shows nothing."""
    places = [place(*point) for point in line.points]
    return Drawn(line.label, line.kind, places, places if line.has_dots else places[-1:] * (len(places) == 1))


def _summary(line: Line, axis: str) -> str:
    """Describes the first and the last value of a line. `axis` is the name of the horizontal axis."""
    ends = (f"{_labels([value])[0]} at {axis} {step:,g}" for step, value in (line.points[0], line.points[-1]))
    return f"{line.label}: {', '.join(ends)}"


def _vertical(values: Sequence[float], is_log: bool, from_zero: bool) -> _Scale:
    """Returns the vertical axis of these values, with a margin around them."""
    low, high = min(values), max(values)
    if is_log:
        return _Scale(low / 1.06, high * 1.06, True)
    if from_zero:
        low = min(0.0, low)
    margin = 0.06 * (high - low) or 1.0
    return _Scale(low if from_zero else low - margin, high + margin, False)


def _ticks(low: float, high: float, steps: Sequence[float] = _STEPS) -> list[float]:
    """Returns about five round numbers from `low` to `high`, in one of these steps times a power of ten."""
    raw = (high - low) / 5 or 1.0
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in steps if factor * magnitude >= raw)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Returns round numbers from `low` to `high`, both above 0: as many as a logarithmic axis has room for."""
    decades = math.log10(high / low)
    factors = next((each for each in _FACTORS if _ratio(each) >= _LEAST_GAP * decades), _FACTORS[-1])
    every = math.ceil(_LEAST_GAP * decades) if factors == _FACTORS[-1] else 1  # powers of ten
    powers = range(math.floor(math.log10(low) / every) * every, math.ceil(math.log10(high)) + 1, every)
    return [tick for power in powers for factor in factors if low <= (tick := factor * 10.0**power) <= high]


def _ratio(factors: Sequence[float]) -> float:
    """Returns the smallest distance of two neighbors, in decades."""
    return min(math.log10(after / before) for before, after in pairwise((*factors, 10)))


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Returns about `_MOST_POINTS` points at most: the extremes of groups of neighbors, because a spike must stay
    visible."""
    size = math.ceil(2 * len(points) / _MOST_POINTS)
    if size <= 2:
        return list(points)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [point for group in groups for point in sorted({min(group, key=_value), max(group, key=_value)})]


def _value(point: Point) -> float:
    return point[1]


def _labels(values: Sequence[float]) -> list[str]:
    """Formats numbers as labels of one axis, all in the same way: 2,500 and 5,000; 5k and 12.5k; 0.5 and 1; 5e-5 and
    1e-4."""
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
