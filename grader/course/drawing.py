"""Draws the drawing of a page as SVG from the text in problems/NAME/drawing.txt.

The text has one command a line; positions are those of centers, in pixels, and ` | ` separates lines of text:

    size 480x300                              the picture
    title TEXT                                what a screen reader announces
    about TEXT                                what it reads on request
    box NAME X,Y WxH | TEXT | TEXT            an operation; `array`, `param` (trained) and `bad` (wrong) look different
    plus NAME X,Y | SYMBOL                    a small circle, `+` unless said otherwise
    cells NAME X,Y WxH | a, b | c, d          a grid of cells of that size; `*a` is marked, `~a` is gray
    frame NAME X,Y WxH | TEXT                 a dashed frame around other shapes
    text X,Y start|middle|end | TEXT          text without a box
    arrow A.e B.w FLAGS | TEXT                from the right side of A to the left of B (n, e, s, w; `A.s+20`: shifted)
    curve X,Y X,Y ...                         a thick line through points

Between the ends of an arrow, `X,Y`, `X,` and `,Y` are corners. Its flags are `line` (no head), `both`, `dashed`,
`accent`, and `left`, `right`, `above` or `below` for the place of the text. A `text` in backticks and a (shape) are set
in a fixed width, `~text` small and gray, `*text` bold.
"""

import math
import re
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from grader.errors import CourseError

FILE = "drawing.txt"
ACCENT = "var(--drawing-accent, #16847a)"
WARNING = "var(--drawing-warning, #c2452d)"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', 'Cascadia Mono', Consolas, 'DejaVu Sans Mono', monospace"
LINE_HEIGHT = 17
_RADIUS = 7  # of the corners of an arrow
_NARROW, _WIDE = "iljtfr.,:;'!|()[]·` ", "mwMWQOG@%─→…+=−<>÷×≤√≥"
_SHAPE = re.compile(r"\([^()]*\)(, \([^()]*\))*")
Point = tuple[float, float]


class DrawingError(ValueError):
    """A line of a source that cannot be drawn."""


@dataclass(frozen=True)
class Words:
    """One line of text in its style. `width` is an estimate for the widest of the usual fonts."""

    text: str
    size: float = 14
    mono: bool = False
    muted: bool = False
    bold: bool = False

    @classmethod
    def parse(cls, source: str) -> "Words":
        text, muted, bold = source.lstrip("~*"), source.startswith("~"), source.startswith("*")
        mono = bool(re.fullmatch(r"`[^`]*`", text) or _SHAPE.fullmatch(text))
        shape = bool(_SHAPE.fullmatch(text))
        return cls(text.replace("`", ""), 12 if muted or shape else 13 if mono else 14, mono, muted or shape, bold)

    @property
    def width(self) -> float:
        return text_width(self.text, self.size, mono=self.mono) * (1.06 if self.bold else 1)

    def svg(self, x: float, y: float, anchor: str = "middle") -> str:
        style = f' font-size="{self.size:g}"' if self.size != 14 else ""
        style += f' font-family="{MONO}"' if self.mono else ""
        style += ' fill-opacity="0.78"' if self.muted else ""
        style += ' font-weight="600"' if self.bold else ""
        style += f' text-anchor="{anchor}"' if anchor != "middle" else ""
        return f'<text x="{x:g}" y="{y + self.size * 0.35:g}"{style}>{escape(self.text, quote=False)}</text>'


def text_width(text: str, size: float, *, mono: bool) -> float:
    """Returns the width of a text in pixels, estimated from above."""
    if mono:
        return len(text) * size * 0.61
    shares = (0.34 if c in _NARROW else 0.9 if c in _WIDE else 0.7 if c.isupper() else 0.6 for c in text)
    return sum(shares) * size


@dataclass
class Shape:
    """A rectangle that arrows can start and end at."""

    x: float
    y: float
    width: float
    height: float

    def at(self, side: str, shift: float) -> Point:
        if side in "ns":
            return self.x + shift, self.y + self.height / 2 * (1 if side == "s" else -1)
        return self.x + self.width / 2 * (1 if side == "e" else -1), self.y + shift


@dataclass
class Drawing:
    """A drawing while it is read. `shapes` are the named ones; `parts` are SVG elements, back to front."""

    name: str
    width: float = 0
    height: float = 0
    title: str = ""
    about: str = ""
    shapes: dict[str, Shape] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)

    def read(self, line: str) -> None:
        head, *texts = (part.strip() for part in line.split(" | "))
        command, *words = head.split()
        if command == "size":
            self.width, self.height = _pair(words[0], "x")
        elif command in ("title", "about"):
            setattr(self, command, line.split(None, 1)[1].strip())
        elif command == "text":
            x, y = _pair(words[0])
            self.block([Words.parse(text) for text in texts], x, y, words[1] if len(words) > 1 else "middle")
        elif command == "curve":
            self.parts.append(f'<path d="M{" L".join(words)}" fill="none" stroke="{ACCENT}" stroke-width="2.5"/>')
        elif command == "arrow":
            self.arrow(words, texts)
        else:
            self.shape(command, words, texts)

    def shape(self, command: str, words: list[str], texts: list[str]) -> None:
        """Draws a named shape. Raises DrawingError if a text is too wide for it."""
        name, (x, y) = words[0], _pair(words[1])
        if command == "plus":
            shape = Shape(x, y, 24, 24)
            self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="12" fill="none" stroke="currentColor"/>')
            self.parts.append(Words(texts[0] if texts else "+", 16).svg(x, y))
        elif command == "cells":
            shape = self.cells(x, y, *_pair(words[2], "x"), [[c.strip() for c in row.split(",")] for row in texts])
        elif command in ("box", "array", "param", "bad", "frame"):
            shape = Shape(x, y, *_pair(words[2], "x"))
            looks = {
                "box": 'rx="9" fill="currentColor" fill-opacity="0.05" stroke="currentColor"',
                "array": 'fill="none" stroke="currentColor" stroke-opacity="0.55"',
                "param": f'fill="{ACCENT}" fill-opacity="0.14" stroke="{ACCENT}"',
                "bad": f'fill="{WARNING}" fill-opacity="0.12" stroke="{WARNING}" stroke-dasharray="4 3"',
                "frame": 'rx="12" fill="none" stroke="currentColor" stroke-opacity="0.55" stroke-dasharray="5 4"',
            }  # fmt: skip
            self.parts.append(_rectangle(shape, looks[command]))
            lines = [Words.parse(text) for text in texts]
            if command == "frame":
                self.block(lines, x - shape.width / 2 + 10, y - shape.height / 2 + 16, "start", centered=False)
            else:
                for line in lines:
                    if line.width > shape.width - 6:
                        raise DrawingError(
                            f"{line.text!r} takes {line.width:.0f} pixels; {name} is {shape.width:g} wide."
                        )
                self.block(lines, x, y)
        else:
            raise DrawingError(f"there is no command {command!r}.")
        self.shapes[name] = shape

    def cells(self, x: float, y: float, width: float, height: float, rows: list[list[str]]) -> Shape:
        whole = Shape(x, y, width * len(rows[0]), height * len(rows))
        left, top = whole.x - whole.width / 2, whole.y - whole.height / 2
        for i, row in enumerate(rows):
            for j, text in enumerate(row):
                cell = Shape(left + (j + 0.5) * width, top + (i + 0.5) * height, width, height)
                look = f'fill="{ACCENT}" fill-opacity="0.2"' if text.startswith("*") else 'fill="none"'
                self.parts.append(_rectangle(cell, f'{look} stroke="currentColor" stroke-opacity="0.55"'))
                if words := text.lstrip("*~"):
                    line = Words(words.strip("`"), 13, mono=words.startswith("`"), muted=text.startswith("~"))
                    if line.width > width - 2:
                        raise DrawingError(f"{line.text!r} takes {line.width:.0f} pixels; its cell is {width:g} wide.")
                    self.parts.append(line.svg(cell.x, cell.y))
        return whole

    def block(self, lines: list[Words], x: float, y: float, anchor: str = "middle", *, centered: bool = True) -> None:
        """Draws lines of text, centered at y, or from y downward. Raises DrawingError if one leaves the picture."""
        top = y - (len(lines) - 1) * LINE_HEIGHT / 2 if centered else y
        for number, line in enumerate(lines):
            left = x - line.width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            if left < 0 or left + line.width > self.width:
                raise DrawingError(
                    f"{line.text!r} reaches from {left:.0f} to {left + line.width:.0f} of {self.width:g}."
                )
            self.parts.append(line.svg(x, top + number * LINE_HEIGHT, anchor))

    def arrow(self, words: list[str], texts: list[str]) -> None:
        flags = {word for word in words if word.isalpha()}
        stops = [self.stop(word) for word in words if not word.isalpha()]
        points = _corners(stops)
        color = ACCENT if "accent" in flags else "currentColor"
        ends = [] if "line" in flags else [points] if "both" not in flags else [points, points[::-1]]
        look = f'fill="none" stroke="{color}" stroke-width="1.4"'
        look += ' stroke-dasharray="5 4"' if "dashed" in flags else ""
        self.parts.append(f'<path d="{_rounded(points)}" {look}/>')
        self.parts += [_head(end[-2], end[-1], color) for end in ends]
        if texts:
            self.label([Words.parse(text) for text in texts], points, flags)

    def label(self, lines: list[Words], points: list[Point], flags: set[str]) -> None:
        """Draws the text of an arrow, beside the middle of its longest segment."""
        (x1, y1), (x2, y2) = max(pairwise(points), key=lambda ends: _distance(*ends))
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        away = 11 + (len(lines) - 1) * LINE_HEIGHT / 2
        if "left" in flags:
            self.block(lines, x - 8, y, "end")
        elif "right" in flags or (x1 == x2 and not flags & {"above", "below"}):
            self.block(lines, x + 8, y, "start")
        else:
            self.block(lines, x, y + (away if "below" in flags else -away))

    def stop(self, word: str) -> tuple[str, float | None, float | None]:
        """Returns an end or a corner of an arrow: the side of the shape that it is at, x and y."""
        if place := re.fullmatch(r"([\w-]+)\.([nesw])([+-]\d+)?", word):
            if place[1] not in self.shapes:
                raise DrawingError(f"no shape is called {place[1]!r}.")
            return place[2], *self.shapes[place[1]].at(place[2], float(place[3] or 0))
        x, comma, y = word.partition(",")
        if not comma:
            raise DrawingError(f"{word!r} is neither a place nor a flag.")
        return "", float(x) if x else None, float(y) if y else None

    def svg(self) -> str:
        """Returns the picture. Colors and fonts are attributes, which pass a strict content security policy, and not
        styles."""
        label = self.name.split("_")[0]
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" height="{self.height:g}"'
        named = f'role="img" aria-labelledby="{label}-title {label}-about"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {named}>',
            f'<title id="{label}-title">{escape(self.title, quote=False)}</title>',
            f'<desc id="{label}-about">{escape(self.about, quote=False)}</desc>',
            f'<g font-family="{SANS}" font-size="14" text-anchor="middle" fill="currentColor">',
            *self.parts,
            "</g>",
            "</svg>",
            "",
        ])  # fmt: skip


def _distance(a: Point, b: Point) -> float:
    return math.hypot(a[0] - b[0], a[1] - b[1])


def _pair(text: str, between: str = ",") -> Point:
    left, _, right = text.partition(between)
    return float(left), float(right)


def _rectangle(shape: Shape, look: str) -> str:
    left, top = shape.x - shape.width / 2, shape.y - shape.height / 2
    return f'<rect x="{left:g}" y="{top:g}" width="{shape.width:g}" height="{shape.height:g}" {look}/>'


def _corners(stops: list[tuple[str, float | None, float | None]]) -> list[Point]:
    """Returns the points of a line of horizontal and vertical pieces through the stops."""
    side, x, y = stops[0]
    points: list[Point] = [(x or 0.0, y or 0.0)]
    for number, (end, x, y) in enumerate(stops[1:], 1):
        x0, y0 = points[-1]
        x, y = x0 if x is None else x, y0 if y is None else y
        if x != x0 and y != y0 and number == len(stops) - 1 and end:
            leaves_flat = side in ("e", "w") if side else end in ("n", "s")
            if leaves_flat and end in ("n", "s"):
                points.append((x, y0))
            elif not leaves_flat and end in ("e", "w"):
                points.append((x0, y))
            elif leaves_flat:
                points += [((x0 + x) / 2, y0), ((x0 + x) / 2, y)]
            else:
                points += [(x0, (y0 + y) / 2), (x, (y0 + y) / 2)]
        points.append((x, y))
        side = ""
    return points


def _rounded(points: list[Point]) -> str:
    """Returns a path through the points, with rounded corners."""
    path = "M{:g},{:g}".format(*points[0])
    for (x0, y0), (x, y), (x1, y1) in zip(points, points[1:], points[2:], strict=False):
        before, after = max(_distance((x0, y0), (x, y)), 1e-9), max(_distance((x, y), (x1, y1)), 1e-9)
        r = min(_RADIUS, before / 2, after / 2)
        path += f" L{x - (x - x0) / before * r:g},{y - (y - y0) / before * r:g}"
        path += f" Q{x:g},{y:g} {x + (x1 - x) / after * r:g},{y + (y1 - y) / after * r:g}"
    return path + " L{:g},{:g}".format(*points[-1])


def _head(before: Point, tip: Point, color: str) -> str:
    (x0, y0), (x, y) = before, tip
    long = _distance(before, tip) or 1
    dx, dy = (x - x0) / long, (y - y0) / long
    left, right = (x - 9 * dx - 4 * dy, y - 9 * dy + 4 * dx), (x - 9 * dx + 4 * dy, y - 9 * dy - 4 * dx)
    corners = " ".join(f"{a:.4g},{b:.4g}" for a, b in ((x, y), left, right))
    return f'<polygon points="{corners}" fill="{color}"/>'


def render(name: str, source: str) -> str:
    """Returns the SVG of the drawing of a problem. Raises CourseError, which names the line, if it cannot be drawn."""
    drawing = Drawing(name)
    for number, line in enumerate(source.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                drawing.read(line)
            except (ValueError, IndexError, KeyError) as error:
                raise CourseError(f"problems/{name}/{FILE}, line {number}: {error}") from error
    if not (drawing.title and drawing.about and drawing.width and drawing.height):
        raise CourseError(f"problems/{name}/{FILE} must have the lines `size`, `title` and `about`.")
    return drawing.svg()
