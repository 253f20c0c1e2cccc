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


@dataclass(frozen=True)
class _Horizontal:
    """The horizontal axis: its first and its last step."""

    first: float
    last: float

    def left(self, step: float) -> float:
        """Returns the place of `step`, in percent from the left."""
        return round(100 * (step - self.first) / ((self.last - self.first) or 1), 2)

    def ticks(self) -> list[tuple[str, float]]:
        """Returns the label and the place of each tick, as `left` or `top` gives it."""
        ticks = _ticks(self.first, self.last)
        return [(text, self.left(tick)) for text, tick in zip(_labels(ticks), ticks, strict=True)]


@dataclass(frozen=True)
class _Vertical:
    """The vertical axis: its lowest and its highest value."""

    low: float
    high: float
    is_log: bool

    @classmethod
    def over(cls, values: Sequence[float], *, is_log: bool) -> "_Vertical":
        """Makes an axis with room above `values`: a logarithmic one only if all are above 0. A linear one has 0."""
        if is_log and min(values) > 0:
            return cls(min(values) / 1.06, max(values) * 1.06, is_log=True)
        low, high = min(0.0, *values), max(values)
        return cls(low, high + 0.06 * (high - low) if high > low else low + 1, is_log=False)

    def top(self, value: float) -> float:
        """Returns the place of `value`, in percent from the top."""
        scale = math.log if self.is_log else float
        return round(100 - 100 * (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low)), 2)

    def ticks(self) -> list[tuple[str, float]]:
        """Returns the label and the place of each tick, as `left` or `top` gives it."""
        ticks = _log_ticks(self.low, self.high) if self.is_log else []
        if len(ticks) < 3:
            ticks = max(ticks, _ticks(self.low, self.high, sorted((*_STEPS, 2.5))), key=len)
        return [(text, self.top(tick)) for text, tick in zip(_labels(ticks), ticks, strict=True)]


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
    horizontal = _Horizontal(min(0.0, *(step for line in shown for step, _ in line.points)), last_step)
    vertical = _Vertical.over(
        [value for line in shown for _, value in line.points] + list(levels.values()), is_log=is_log
    )
    return Chart(
        title,
        "; ".join(_summary(line, axis) for line in shown),
        [_drawn(line, horizontal, vertical) for line in shown],
        [(name, f"{name} {value:.2f}", vertical.top(value)) for name, value in levels.items()],
        horizontal.ticks(),
        vertical.ticks(),
    )


def _drawn(line: Line, horizontal: _Horizontal, vertical: _Vertical) -> Drawn:
    """Places `line` on its axes. A single point is a dot, because a path of one point shows nothing."""
    places = [(horizontal.left(step), vertical.top(value)) for step, value in line.points]
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    return Drawn(line.label, line.kind, path, places if line.has_dots else places[-1:] * (len(places) == 1))


def _summary(line: Line, axis: str) -> str:
    """Says the first and the last value of `line`. `axis` is the name of the horizontal axis."""
    ends = (f"{_labels([value])[0]} at {axis} {step:,g}" for step, value in (line.points[0], line.points[-1]))
    return f"{line.label}: {', '.join(ends)}"


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
