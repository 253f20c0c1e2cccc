"""Arrays as grids of cells: the text and the shade of each cell, and which cells are wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.judge.counterexample import ComparedLeaf
from grader.problem import EXACT, Tolerance
from grader.wire.compare import Index, Leaf, Values

MOST_ROWS, MOST_COLUMNS, MOST_PLANES = 24, 24, 3
MOST_NUMBERS = 10  # columns; the cells of a wider grid have colors only
MOST_LISTED = 12  # wrong values
MOST_FOCUSABLE = 8  # wrong cells that the Tab key reaches
STEPS = 10  # of a color scale
HATCHED = "Hatched: outside of the scale, or not a number."
_SHORT = 2  # characters of a heading that a narrow column has room for
_OUTLIER = 1e3  # times the median: such a value, like the -1e9 of a mask, is not on the scale

Shade = Callable[[float], str]


@dataclass(frozen=True)
class Cell:
    """One value.

    Attributes:
        text: The value in few characters.
        shade: The classes of the style sheet.
        title: The exact value.
        mark: What is wrong with it.
        is_focusable: Whether the keyboard can reach it.
    """

    text: str
    shade: str
    title: str
    mark: str = ""
    is_focusable: bool = False


@dataclass(frozen=True)
class Panel:
    """One plane of an array. `columns` and the label of each of `rows` are indices."""

    name: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]

    @property
    def has_numbers(self) -> bool:
        return len(self.columns) <= MOST_NUMBERS

    @property
    def has_long_headings(self) -> bool:
        """Whether its columns are too narrow for their headings."""
        return not self.has_numbers and max(map(len, self.columns), default=0) > _SHORT


@dataclass(frozen=True)
class Listed:
    """One wrong value as a row of a table."""

    where: str
    expected: str
    got: str
    difference: str
    idea: str


@dataclass(frozen=True)
class Figure:
    """An array, or several of one shape, in grids: the panels of each plane by label, the first wrong values, and
    sentences."""

    planes: Sequence[tuple[str, Sequence[Panel]]]
    listed: Sequence[Listed]
    legend: Sequence[str]


def number(value: Any, digits: int = 3) -> str:
    """Returns a number in few characters: `-0.703`, `1.2e-7`, `-1e9`, `nan`."""
    if not isinstance(value, float):
        return f"{value:.{digits}g}" if isinstance(value, complex) else str(value)
    digits -= digits == 3 and abs(value) < 0.01  # to keep columns narrow
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def figure(leaf: ComparedLeaf, tolerance: Tolerance = EXACT, words: Mapping[int, str] | None = None) -> Figure:
    """Returns the figure of a leaf: the expected, the returned and the misconception's values, and the difference.

    A side that is missing is left out. `words` are the meanings of coded numbers.
    """
    axes = len(leaf.shape)
    shown = leaf.window([*[1] * (axes - 3), MOST_PLANES, MOST_ROWS, MOST_COLUMNS][-axes:] if axes else [])
    sides = _Sides(leaf, shown, tolerance, words or {})
    kept = sides.shape
    indices = list(np.ndindex(*kept[:-2]))
    drawn = [at for at in indices if shown.wrong is not None and shown.wrong[at].any()] or indices
    planes = [
        (f"{leaf.path}[{', '.join(map(str, shown.index((*at, 0, 0))[:-2]))}]" if at else "", sides.panels(at))
        for at in drawn
    ]
    legend = sides.legend()
    if len(drawn) < len(indices):
        legend.append("Planes without a wrong value are not shown.")
    if kept != leaf.shape:
        where = ", around the first wrong one" if leaf.first_wrong is not None else ""
        legend.append(f"Shown: {_by(kept)} of {_by(leaf.shape)} values{where}.")
    complete = kept == leaf.shape and kept[-1:] <= (MOST_NUMBERS,)
    return Figure(planes, [] if complete else sides.listed(), legend)


class _Sides:
    """The arrays of a leaf, with their shades and texts. `shown` is the window of `leaf` to draw."""

    def __init__(self, leaf: ComparedLeaf, shown: ComparedLeaf, tolerance: Tolerance, words: Mapping[int, str]) -> None:
        self.leaf, self.shown, self.words = leaf, shown, words
        first = next(side for side in (leaf.expected, leaf.got) if side is not None)
        self.is_float = first.values.dtype.kind == "f"
        self.zero = tolerance.atol
        present = {"Expected": "expected", "Yours": "got", "This idea": "idea"}
        if leaf.got is None:
            present = {"": "expected"}
        self.sides: dict[str, Values] = {
            name: side.values for name, key in present.items() if isinstance(side := getattr(shown, key), Leaf)
        }
        self.shape = next(iter(self.sides.values())).shape
        scale = Scale.of(first.values, leaf.got.values if leaf.got else None) if self.is_float else None
        self.scale = scale
        self.shades: dict[str, Shade] = dict.fromkeys(self.sides, scale.shade if scale else _no_shade)
        if self.is_float and leaf.expected and leaf.got:
            self.sides["Difference"] = _difference(shown)
            self.shades["Difference"] = _difference_shade(_difference(leaf))
        self.focusable = MOST_FOCUSABLE

    def panels(self, at: Index) -> list[Panel]:
        """Returns the panels of the plane at these leading indices."""
        panels = []
        for name, values in self.sides.items():
            plane = np.atleast_2d(values[at])
            numbers = plane.shape[1] <= MOST_NUMBERS
            rows = []
            for i in range(plane.shape[0]):
                places = [(*at, i, j)[-values.ndim :] if values.ndim else () for j in range(plane.shape[1])]
                label = str(self.shown.index(places[0])[-2]) if values.ndim > 1 and places else ""
                rows.append((label, [self._cell(name, values, place, numbers=numbers) for place in places]))
            last = self.shown.start[-1] if values.ndim else 0
            panels.append(Panel(name, [str(last + j) for j in range(plane.shape[1])], rows))
        return panels

    def listed(self) -> list[Listed]:
        """Returns the first wrong values."""
        leaf = self.leaf
        if leaf.wrong is None or leaf.expected is None or leaf.got is None:
            return []
        rows = []
        for found in np.argwhere(leaf.wrong)[:MOST_LISTED]:
            at = tuple(int(i) for i in found)
            want, have = leaf.expected.values[at], leaf.got.values[at]
            idea = leaf.idea.values[at] if leaf.idea and leaf.idea.shape == leaf.got.shape else None
            difference = self._text(_minus(have, want), 7) if self.is_float else ""
            rows.append(
                Listed(
                    self._where(leaf, at), self._text(want, 7), self._text(have, 7), difference,
                    "" if idea is None else self._text(idea, 7),
                )
            )  # fmt: skip
        return rows

    def legend(self) -> list[str]:
        """Returns sentences that explain the colors."""
        sentences = []
        if self.scale:
            sentences.append(f"Colors: from {number(self.scale.low)} to {number(self.scale.high)}.")
            shades = {shade(float(v)) for name, shade in self.shades.items() for v in self.sides[name].flat}
            if shades & {"over", "under", "nan"}:
                sentences.append(HATCHED)
        if self.shown.wrong is not None and self.shown.wrong.any():
            sentences.append("Outlined: wrong. Thick outline: the first wrong value.")
        return sentences

    def _cell(self, name: str, values: Values, at: Index, *, numbers: bool) -> Cell:
        value = values[at].item()
        first = self.shown.first_wrong == at and self.leaf.got is not None
        wrong = name == "Yours" and self.shown.wrong is not None and bool(self.shown.wrong[at])
        title = f"{self._where(self.shown, at)} = {self._text(value, 7)}"
        if name == "Yours" and wrong:
            title += f", expected {self._text(self.sides['Expected'][at].item(), 7)}"
            self.focusable -= 1
        elif name:
            title = f"{name}: {title}"
        mark = "first" if first else "wrong" if wrong else ""
        focusable = name == "Yours" and wrong and self.focusable >= 0
        return Cell(self._text(value) if numbers else "", self.shades[name](value), title, mark, focusable)

    def _text(self, value: Any, digits: int = 3) -> str:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, int) and value in self.words:
            return self.words[value]
        return "0" if isinstance(value, float) and abs(value) <= self.zero else number(value, digits)

    def _where(self, part: ComparedLeaf, at: Index) -> str:
        return f"{part.path}[{', '.join(map(str, part.index(at)))}]" if at else part.path


@dataclass(frozen=True)
class Scale:
    """Maps numbers to shades, evenly from `low` to `high`. Outliers, infinities and NaN have shades of their own."""

    low: float
    high: float

    @classmethod
    def of(cls, main: Values, other: Values | None = None) -> "Scale":
        """Returns the scale of `main`, extended to the values of `other` that are not far from it."""
        core = _core(main)
        low, high = (float(core.min()), float(core.max())) if core.size else (0.0, 0.0)
        if other is not None:
            reach = 3 * ((high - low) or abs(high) or 1.0)
            near = other[(other >= low - reach) & (other <= high + reach)]
            low, high = (min(low, float(near.min())), max(high, float(near.max()))) if near.size else (low, high)
        return cls(low, high)

    def shade(self, value: float) -> str:
        """Returns the classes of a value."""
        if np.isnan(value):
            return "nan"
        if not self.low <= value <= self.high:
            return "under" if value < self.low else "over"
        span = self.high - self.low
        return f"value t{round(STEPS * (value - self.low) / span) if span else STEPS // 2}"


def _difference_shade(differences: Values) -> Shade:
    """Returns a diverging scale, with 0 in the middle."""
    core = _core(differences)
    most = float(np.abs(core).max()) if core.size else 0.0

    def shade(value: float) -> str:
        if np.isnan(value):
            return "nan"
        if abs(value) > most:
            return "under" if value < 0 else "over"
        step = round(STEPS * abs(value) / most) if most else 0
        return f"{'negative' if value < 0 else 'positive'} t{step}"

    return shade


def _no_shade(value: float) -> str:
    return ""


def _core(values: Values) -> Values:
    """Returns the finite values without the outliers."""
    finite = values[np.isfinite(values)]
    sizes = np.abs(finite[finite != 0])
    core: Values = finite[np.abs(finite) <= _OUTLIER * np.median(sizes)] if sizes.size else finite
    return core


def _difference(leaf: ComparedLeaf) -> Values:
    """Returns the error of each value, got minus expected, and 0 where the value is right."""
    assert leaf.expected is not None and leaf.got is not None  # noqa: S101, PT018  the caller asked
    difference: Values = _minus(leaf.got.values, leaf.expected.values)
    return difference if leaf.wrong is None else np.where(leaf.wrong, difference, 0.0)


@np.errstate(all="ignore")  # infinities may meet
def _minus(a: Any, b: Any) -> Any:
    return np.asarray(a, np.float64) - np.asarray(b, np.float64)


def _by(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))
