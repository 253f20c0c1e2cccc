"""The exhibits of a play: stories, heat maps, curves, bars and tables, as data that checks itself.

A `problems/pNN_slug/play.py` yields exhibits. They are made in the process of a submission and cross to the judge's
side as numbers and short text, so nothing in them is trusted: every text is made printable and cut, every number is a
float, every size has a limit. `grader.report.exhibits_terminal` and `grader.report.exhibits_page` draw them. Imports
nothing heavy.
"""

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, SupportsFloat

from commandline.text import printable

TITLE = 120
"""The most characters of a title. Longer texts are cut."""
CAPTION = 700
"""The most characters of a caption."""
LABEL = 60
"""The most characters of a label, a name or a token."""
TEXT = 400
"""The most characters of a cell of a table."""
TOKENS = 600
"""The most tokens of a story. More parts than a limit raise ExhibitError."""
OTHERS = 10
"""The most other tokens in the place of a token."""
KINDS = 6
"""The most kinds of tokens."""
ROWS = 64
"""The most rows of a heat map."""
COLUMNS = 64
"""The most columns of a heat map."""
PLANES = 8
"""The most planes of a heat map."""
SERIES = 6
"""The most curves of a chart."""
POINTS = 500
"""The most points of a curve."""
BARS = 24
"""The most bars of a chart."""
TABLE_ROWS = 64
"""The most rows of a table."""
TABLE_COLUMNS = 8
"""The most columns of a table."""
STEPS = 1_000_000
"""The most steps of a training."""


class ExhibitError(ValueError):
    """A value is not an exhibit: it has the wrong type, or is too large. The message gives the reason."""


class Array(Protocol):
    """An array of NumPy or JAX."""

    def tolist(self) -> Any:
        """Returns the numbers as nested lists."""


Numbers = Sequence[float] | Array
"""The values from which a tuple of floats is made: a list, a tuple or an array of one axis."""


@dataclass(frozen=True)
class Token:
    """A token of a story.

    Attributes:
        text: The text of the token.
        value: How strongly it is shaded, in the unit of the story's `meaning`; None for no shade.
        kind: An index into the story's kinds.
        others: The likeliest tokens in its place, with their probabilities.
    """

    text: str
    value: float | None = None
    kind: int | None = None
    others: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        _text(self, "text", LABEL)
        _set(self, "value", None if self.value is None else number(self.value))
        _set(self, "others", tuple((_cut(text, LABEL), number(share)) for text, share in _few(self.others, OTHERS)))
        if self.kind is not None and type(self.kind) is not int:
            raise ExhibitError("the kind of a token is not an index")


@dataclass(frozen=True)
class Story:
    """A text of tokens.

    Attributes:
        title: The title of the exhibit.
        tokens: The tokens in order.
        caption: What to see in it.
        given: The number of tokens at the beginning that are a prompt.
        meaning: What the values of the tokens are.
        strongest: The value of the strongest shade; above 0.
        kinds: The names of groups of tokens.
        separated: Whether to show where each token ends.
    """

    title: str
    tokens: tuple[Token, ...]
    caption: str = ""
    given: int = 0
    meaning: str = ""
    strongest: float = 10.0
    kinds: tuple[str, ...] = ()
    separated: bool = False

    def __post_init__(self) -> None:
        _head(self)
        _text(self, "meaning", LABEL)
        _set(self, "tokens", _all(Token, self.tokens, TOKENS))
        _set(self, "kinds", tuple(_cut(kind, LABEL) for kind in _few(self.kinds, KINDS)))
        _set(self, "strongest", number(self.strongest))
        if not self.strongest > 0:
            raise ExhibitError("the strongest shade must be above 0")
        if not 0 <= self.given <= len(self.tokens):
            raise ExhibitError("a story has fewer tokens than its prompt")
        if any(token.kind is not None and not 0 <= token.kind < len(self.kinds) for token in self.tokens):
            raise ExhibitError("the kind of a token is not one of the story's")

    @property
    def text(self) -> str:
        """Returns the whole story as one string."""
        return "".join(token.text for token in self.tokens)


@dataclass(frozen=True, init=False)
class Plane:
    """The values of one heat map, from nested lists or an array (rows, columns).

    Attributes:
        values: The values by row.
        name: The name of the plane, where a heat map has several.
        texts: Texts for the cells by row; empty for none.
    """

    values: tuple[tuple[float, ...], ...]
    name: str = ""
    texts: tuple[tuple[str, ...], ...] = ()

    def __init__(
        self, values: Sequence[Numbers] | Array, name: str = "", texts: Sequence[Sequence[str]] | Array = ()
    ) -> None:
        _set(self, "name", _cut(name, LABEL))
        _set(self, "values", tuple(tuple(map(number, _few(row, COLUMNS))) for row in _few(values, ROWS)))
        cells = tuple(tuple(_cut(text, LABEL) for text in _few(row, COLUMNS)) for row in _few(texts, ROWS))
        _set(self, "texts", cells)


@dataclass(frozen=True)
class HeatMap:
    """Values by row and column as shades.

    Attributes:
        title: The title of the exhibit.
        rows: The labels of the rows.
        columns: The labels of the columns.
        planes: The heat maps, which have the same labels and the same scale.
        caption: What to see in it.
        meaning: What the values are.
        low: The value of the weakest shade.
        high: The value of the strongest shade; above `low`.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    planes: tuple[Plane, ...]
    caption: str = ""
    meaning: str = ""
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _head(self)
        _text(self, "meaning", LABEL)
        for name, most in (("rows", ROWS), ("columns", COLUMNS)):
            _set(self, name, tuple(_cut(label, LABEL) for label in _few(getattr(self, name), most)))
        _set(self, "planes", _all(Plane, self.planes, PLANES))
        for bound in ("low", "high"):
            _set(self, bound, number(getattr(self, bound)))
        if not self.low < self.high:
            raise ExhibitError("the scale of a heat map is empty")
        for plane in self.planes:
            for part in (plane.values, plane.texts) if plane.texts else (plane.values,):
                if [len(row) for row in part] != [len(self.columns)] * len(self.rows):
                    raise ExhibitError("a heat map does not have a value for each row and column")


@dataclass(frozen=True, init=False)
class Line:
    """A curve, from lists or arrays of one axis.

    Attributes:
        name: The name of the curve.
        x: Where the curve has a value.
        y: The value at each x; a break in the curve where it is not finite.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __init__(self, name: str, x: Numbers, y: Numbers) -> None:
        _set(self, "name", _cut(name, LABEL))
        _set(self, "x", tuple(map(number, _few(x, POINTS))))
        _set(self, "y", tuple(map(number, _few(y, POINTS))))
        if len(self.x) != len(self.y):
            raise ExhibitError("a curve does not have one y for each x")


@dataclass(frozen=True)
class Lines:
    """Curves over one axis, such as losses over steps.

    Attributes:
        title: The title of the exhibit.
        lines: The curves, each with a name of its own.
        caption: What to see in it.
        x: What the horizontal axis counts.
        y: What the vertical axis measures.
        log: Whether the vertical axis is logarithmic, if all values are above 0.
        timed: Whether the values are times, which differ from run to run.
    """

    title: str
    lines: tuple[Line, ...]
    caption: str = ""
    x: str = "step"
    y: str = "loss"
    log: bool = False
    timed: bool = False

    def __post_init__(self) -> None:
        _head(self)
        _text(self, "x", LABEL)
        _text(self, "y", LABEL)
        _set(self, "lines", _all(Line, self.lines, SERIES))
        if len({line.name for line in self.lines}) < len(self.lines):
            raise ExhibitError("two curves have the same name")


@dataclass(frozen=True, init=False)
class Bar:
    """A labelled value, from a number or an array that holds one.

    Attributes:
        label: The label of the value.
        value: The value, in the unit of its Bars.
        other: A value to compare it with; None for none.
    """

    label: str
    value: float
    other: float | None = None

    def __init__(self, label: str, value: SupportsFloat, other: SupportsFloat | None = None) -> None:
        _set(self, "label", _cut(label, LABEL))
        _set(self, "value", number(value))
        _set(self, "other", None if other is None else number(other))

    @property
    def apart(self) -> float:
        """Returns how far the two values are apart; 0 for a value alone."""
        return 0.0 if self.other is None else abs(self.value - self.other)


@dataclass(frozen=True)
class Bars:
    """Labelled values of one unit.

    Attributes:
        title: The title of the exhibit.
        bars: The values.
        unit: The unit of the values.
        caption: What to see in it.
        names: Whose the values are, and whose those beside them.
        timed: Whether the values are times, which differ from run to run.
    """

    title: str
    bars: tuple[Bar, ...]
    unit: str
    caption: str = ""
    names: tuple[str, str] = ("yours", "right")
    timed: bool = False

    def __post_init__(self) -> None:
        _head(self)
        _text(self, "unit", LABEL)
        _set(self, "bars", _all(Bar, self.bars, BARS))
        _set(self, "names", tuple(_cut(name, LABEL) for name in _few(self.names, 2)))
        if len(self.names) != 2:
            raise ExhibitError("bars do not have two names")


@dataclass(frozen=True)
class Table:
    """Rows of text under headings.

    Attributes:
        title: The title of the exhibit.
        columns: The headings.
        rows: The cells of each row, one for each heading.
        caption: What to see in it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        _head(self)
        _set(self, "columns", tuple(_cut(name, LABEL) for name in _few(self.columns, TABLE_COLUMNS)))
        rows = _few(self.rows, TABLE_ROWS)
        _set(self, "rows", tuple(tuple(_cut(cell, TEXT) for cell in _few(row, TABLE_COLUMNS)) for row in rows))
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ExhibitError("a table does not have a cell for each heading")


Exhibit = Story | HeatMap | Lines | Bars | Table
"""An exhibit of a play."""
KINDS_OF_EXHIBITS: Mapping[str, type] = types.MappingProxyType(
    {kind.__name__: kind for kind in typing.get_args(Exhibit)}
)
"""The kinds of exhibits by name."""


@dataclass(frozen=True)
class Progress:
    """The progress of training in a play, shown until the next exhibit.

    Attributes:
        step: The number of steps that are done.
        steps: The number of all steps.
        loss: The loss of the last step.
    """

    step: int
    steps: int
    loss: float

    def __post_init__(self) -> None:
        _set(self, "loss", number(self.loss))
        if type(self.step) is not int or type(self.steps) is not int or not 0 <= self.step <= self.steps <= STEPS:
            raise ExhibitError("progress is not a step of a number of steps")

    @property
    def said(self) -> str:
        """Describes the progress in one line: the step, the number of steps and the loss."""
        return f"training: step {self.step:,} of {self.steps:,}, loss {self.loss:.3g}"


Exhibits = Iterator[Exhibit | Progress]
"""The result of the function `play` of a `play.py`."""


class LearnerModule(Protocol):
    """The learner's file as a play gets it: its functions and classes are attributes."""

    def __getattr__(self, name: str) -> Any:
        """Returns the function or class `name`. Raises BadEntryError if the file has none."""

    def construct(self, name: str, **values: Any) -> Callable[[], Any]:
        """Returns a function that constructs the module entry `name` as its page says, from the values of a case."""


@dataclass(frozen=True)
class Ending:
    """The end of a play.

    Attributes:
        said: The sentence that says why, if it ended early.
        frames: The learner's own frames there.
        printed: The output that the learner's code printed.
        compared: After a failed grading, how the exhibits differ from those of a right file.
    """

    said: str = ""
    frames: str = ""
    printed: str = ""
    compared: str = ""


def encode(exhibit: Exhibit | Progress) -> dict[str, Any]:
    """Returns `exhibit` as JSON values. Raises ExhibitError if it is none."""
    if type(exhibit).__name__ not in KINDS_OF_EXHIBITS and type(exhibit) is not Progress:
        raise ExhibitError(f"a play yields exhibits, not {type(exhibit).__name__}")
    return {"kind": type(exhibit).__name__, **_plain(exhibit)}


def decode(values: Mapping[str, Any]) -> Exhibit | Progress:
    """Returns the exhibit of JSON `values` that come from an untrusted process. Raises ExhibitError on anything that
    `encode` does not make."""
    kind = values.get("kind")
    kinds = {**KINDS_OF_EXHIBITS, Progress.__name__: Progress}
    if type(kind) is not str or kind not in kinds:
        raise ExhibitError("its kind is not that of an exhibit")
    exhibit: Exhibit | Progress = _made(kinds[kind], {key: value for key, value in values.items() if key != "kind"})
    return exhibit


def number(value: Any) -> float:
    """Returns `value`, a number or an array that holds one, as a float. Raises ExhibitError if it is neither."""
    if isinstance(value, str | bytes | bool):
        raise ExhibitError("a number is not a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ExhibitError("a number is not a number") from None


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {part.name: _plain(getattr(value, part.name)) for part in fields(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _made(kind: Any, value: Any) -> Any:
    """Returns the value of a field of this type from JSON. Every type is checked exactly."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        if type(value) is not dict or set(value) != set(hints):
            raise ExhibitError("its fields are not those of an exhibit")
        return kind(**{name: _made(hints[name], part) for name, part in value.items()})  # type: ignore[operator]
    if origin is types.UnionType:
        return None if value is None else _made(arguments[0], value)
    if origin is tuple:
        if type(value) is not list or len(value) > TOKENS:
            raise ExhibitError("a sequence is missing or too long")
        if arguments[-1] is ...:
            return tuple(_made(arguments[0], item) for item in value)
        if len(value) != len(arguments):
            raise ExhibitError("a pair does not have two parts")
        return tuple(_made(each, item) for each, item in zip(arguments, value, strict=True))
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ExhibitError("a field has the wrong type")
    return number(value) if kind is float else value


def _head(exhibit: Any) -> None:
    _text(exhibit, "title", TITLE)
    _text(exhibit, "caption", CAPTION)


def _text(owner: Any, name: str, most: int) -> None:
    _set(owner, name, _cut(getattr(owner, name), most))


def _cut(text: Any, most: int) -> str:
    """Returns the text without control characters, and not longer than allowed. Raises ExhibitError if it is none."""
    if type(text) is not str:
        raise ExhibitError("a text is not text")
    short = printable(text[:most].replace("\t", " "))[:most]
    return short if len(text) <= most else f"{short[: most - 1]}…"


def _few(parts: Any, most: int) -> Sequence[Any]:
    """Returns a sequence or an array as a tuple. Raises ExhibitError if it is none, or too long."""
    if hasattr(parts, "tolist"):
        parts = parts.tolist()
    if not isinstance(parts, list | tuple):
        raise ExhibitError("a sequence is not a sequence")
    if len(parts) > most:
        raise ExhibitError(f"an exhibit has {len(parts)} parts where at most {most} are allowed")
    return tuple(parts)


def _all(kind: type, parts: Any, most: int) -> Sequence[Any]:
    few = _few(parts, most)
    if not all(type(part) is kind for part in few):
        raise ExhibitError(f"a part of an exhibit is not a {kind.__name__}")
    return few


def _set(owner: Any, name: str, value: Any) -> None:
    object.__setattr__(owner, name, value)
