"""Exhibits for a terminal: at most 72 columns, and no meaning in color alone."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import click
from rich.cells import cell_len, set_cell_size

from commandline.terminal import wrap
from grader.exhibits import Bars, Ending, Exhibit, HeatMap, Line, Lines, Plane, Story, Table, Token
from grader.report.grids import number

WIDTH = 72  # columns
_SHADES = " ·░▒▓█"  # the blank is the low end of the scale; a dot is a little more
_LONGEST_LABEL = 16  # columns, of a row of a heat map
_LONGEST_BAR_LABEL = 30
_FEW_COLUMNS = 6  # of a heat map, whose cells then have room for numbers
_PLOT_ROWS = 12
_MARKS = "●○▲△■□"  # of the curves of a chart
_SEVERAL = "◆"  # where curves lie on each other
_NOTHING = 0.005  # of a scale, is as good as its low end
_PRINTED = 8  # lines
_NAMED = 3  # tokens of a story whose values are said
# Backgrounds of the 256 colors, from weak to strong, and the text on them: a token that surprises, and kinds of tokens.
_SURPRISE = (None, (224, 16), (217, 16), (210, 16), (203, 16))
_KINDS = ((114, 16), (209, 16), (111, 16), (179, 16), (176, 16), (80, 16))
_TURNS = ((153, 16), (223, 16))  # of separated tokens

Style = tuple[int, int] | None
Numbers = tuple[Sequence[str], Sequence[Sequence[str]]]  # headings and rows


def render(exhibit: Exhibit, width: int = WIDTH, *, numbers: bool = False) -> str:
    """Returns the exhibit in lines of at most `width` columns, with ANSI colors. `numbers` adds the table behind the
    picture."""
    width = min(width, WIDTH)
    lines = [click.style(line, bold=True) for line in wrap(exhibit.title, width)]
    lines += _picture(exhibit, width)
    lines += wrap(exhibit.caption, width) if exhibit.caption else []
    if numbers and not isinstance(exhibit, Table):
        heads, rows = table(exhibit)
        if isinstance(exhibit, HeatMap):  # which has more columns than fit beside each other
            heads, rows = ["", "values"], [[row[0], "  ".join(row[1:])] for row in rows]
        lines += ["", *_rows(heads, rows, width)]
    return "\n".join(line.rstrip() for line in lines)


def ending(end: Ending, width: int = WIDTH) -> Iterator[str]:
    """Yields the end of a play in paragraphs: the reason, the learner's frames, the last lines that were printed, and
    the comparison with a right file."""
    frames = f"Your code, where it stopped:\n{end.frames}" if end.frames else ""
    printed = "\n".join(line[:400] for line in end.printed.splitlines()[-_PRINTED:])
    for text in (end.said, frames, f"It printed:\n{printed}" if printed else "", end.compared):
        if text:
            yield "\n".join(line for part in text.splitlines() for line in wrap(part, width))


def table(exhibit: Exhibit) -> Numbers:
    """Returns the numbers behind a picture: headings and rows."""
    match exhibit:
        case Story():
            return _story_table(exhibit)
        case HeatMap():
            return _heat_map_table(exhibit)
        case Lines():
            return _lines_table(exhibit)
        case Bars():
            return _bars_table(exhibit)
        case Table():
            return exhibit.columns, exhibit.rows


def _story_table(story: Story) -> Numbers:
    """Returns a row for each token: its value, its group where a story has groups, and the likelier tokens."""
    heads = ["token", story.meaning or "value", *(["group"] if story.kinds else []), "likeliest instead"]
    return heads, [
        [
            visible(token.text),
            "" if token.value is None else amount(token.value),
            *([story.kinds[token.kind] if token.kind is not None else ""] if story.kinds else []),
            ", ".join(f"{visible(text)} {percent(share)}" for text, share in token.others),
        ]
        for token in story.tokens
    ]


def _heat_map_table(exhibit: HeatMap) -> Numbers:
    """Returns the rows of all planes, one plane below the other."""
    return ["", *map(visible, exhibit.columns)], [
        [f"{plane.name + ': ' if plane.name else ''}{visible(label)}", *map(amount, values)]
        for plane in exhibit.planes
        for label, values in zip(exhibit.rows, plane.values, strict=True)
    ]


def _lines_table(exhibit: Lines) -> Numbers:
    """Returns a row for each step at which a curve has a value, and a column for each curve."""
    steps = sorted({x for line in exhibit.lines for x in line.x})
    known = [dict(zip(line.x, line.y, strict=True)) for line in exhibit.lines]
    return [exhibit.x, *(line.name for line in exhibit.lines)], [
        [amount(x), *(amount(each[x]) if x in each else "" for each in known)] for x in steps
    ]


def _bars_table(exhibit: Bars) -> Numbers:
    """Returns a row for each pair of bars, with one number where no bar has another beside it."""
    others = any(bar.other is not None for bar in exhibit.bars)
    return ["", *(f"{name} ({exhibit.unit})" for name in exhibit.names[: 1 + others])], [
        [bar.label, amount(bar.value), *(["" if bar.other is None else amount(bar.other)] * others)]
        for bar in exhibit.bars
    ]


def amount(value: float) -> str:
    """Returns a number in few characters, and a large one in full: 0.0571, 8.03, 612,352."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else number(value)


def visible(text: str) -> str:
    """Returns a token as a label: its spaces and line breaks are shown."""
    return text.replace("\n", "⏎").replace(" ", "␣") if text.strip(" ") != text or "\n" in text else text


def percent(share: float) -> str:
    """Returns a probability: 31%, 0.4%, <0.1%."""
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}" if share >= 0.001 else "<0.1%" if share > 0 else "0%"


def surprising(story: Story) -> list[Token]:
    """Returns the tokens after the prompt with the largest values for which likelier ones are known."""
    told = [token for token in story.tokens[story.given :] if token.value is not None and token.others]
    return sorted(told, key=lambda token: -(token.value or 0.0))[:_NAMED]


def _picture(exhibit: Exhibit, width: int) -> Iterator[str]:
    match exhibit:
        case Story():
            yield from _story(exhibit, width)
        case HeatMap():
            yield from _heat_map(exhibit, width)
        case Lines():
            yield from _lines(exhibit, width)
        case Bars():
            yield from _bars(exhibit, width)
        case Table():
            yield from _rows(exhibit.columns, exhibit.rows, width)


# Stories


def _story(story: Story, width: int) -> Iterator[str]:
    is_empty = False
    for line in _broken(list(_cells(story)), width - 2):
        was_empty, is_empty = is_empty, not line
        if is_empty and was_empty:  # a model that has learned little writes many of them
            continue
        styled = [("".join(c for c, _ in run), style) for style, run in groupby(line, key=lambda cell: cell[1])]
        yield "  " + "".join(click.style(text, fg=s[1], bg=s[0]) if s else text for text, s in styled)
    if story.kinds:
        yield from _groups(story, width)
    if named := surprising(story):
        parts = "; ".join(map(_beside_likelier, named))
        yield from wrap(f"Highest {story.meaning or 'values'}: {parts}.", width)


def _cells(story: Story) -> Iterator[tuple[str, Style]]:
    """Yields each character with its style, and marks where the tokens that were given end."""
    for index, token in enumerate(story.tokens):
        if story.given and index == story.given:
            yield "▸", None
        elif story.separated and index:
            yield "│", None
        style = _token_style(story, token, index)
        yield from ((character, style) for character in token.text)


def _beside_likelier(token: Token) -> str:
    """Returns a token with its value and the two tokens that were likelier."""
    others = [f"`{visible(text)}` {percent(share)}" for text, share in token.others[:2] if text != token.text]
    return f"`{visible(token.text)}` {amount(token.value or 0.0)} (likelier: {', '.join(others)})"


def _groups(story: Story, width: int) -> Iterator[str]:
    """Yields lines that list the tokens of each kind."""
    for index, kind in enumerate(story.kinds):
        own = [visible(token.text) for token in story.tokens if token.kind == index]
        shown = " ".join(f"`{text}`" for text in own[:8]) + (" …" if len(own) > 8 else "")
        name = click.style(kind, fg=_KINDS[index][1], bg=_KINDS[index][0])
        for line in wrap(f"{kind}: {len(own)} tokens  {shown}", width):
            yield line.replace(kind, name, 1) if line.startswith(kind) else line


def _token_style(story: Story, token: Token, index: int) -> Style:
    if token.kind is not None:
        return _KINDS[token.kind]
    if story.separated:
        return _TURNS[index % 2]
    if token.value is None or not math.isfinite(token.value):
        return None
    share = min(max(token.value / story.strongest, 0.0), 1.0)
    return _SURPRISE[round(share * (len(_SURPRISE) - 1))]


def _broken(cells: Sequence[tuple[str, Style]], width: int) -> Iterator[list[tuple[str, Style]]]:
    """Returns lines of cells, broken at spaces where possible."""
    line: list[tuple[str, Style]] = []
    for cell in cells:
        if cell[0] == "\n":
            yield line
            line = []
            continue
        line.append(cell)
        if sum(cell_len(character) for character, _ in line) > width:
            spaces = [place for place, (character, _) in enumerate(line) if character == " "]
            place = spaces[-1] + 1 if spaces and spaces[-1] else len(line) - 1
            yield line[: place - 1] if spaces and spaces[-1] else line[:place]
            line = line[place:]
    yield line


# Heat maps


def _heat_map(exhibit: HeatMap, width: int) -> Iterator[str]:
    labels = [visible(label) for label in exhibit.rows]
    gutter = min(max(map(cell_len, labels), default=0), _LONGEST_LABEL) + 1
    columns = max(len(exhibit.columns), 1)
    if any(plane.texts for plane in exhibit.planes) or columns <= _FEW_COLUMNS:
        for plane in exhibit.planes:
            yield from _texts(exhibit, plane, labels, gutter, (width - gutter) // columns)
        yield from _scale(exhibit, width)
        return
    # Beside each other, the planes share the labels of the rows.
    fitting = {cell: max((width - gutter + 2) // (cell * columns + 2), 1) for cell in (1, 2)}
    cell = 2 if gutter + 2 * columns <= width and fitting[2] >= min(fitting[1], len(exhibit.planes)) else 1
    beside = fitting[cell]
    for start in range(0, len(exhibit.planes), beside):
        few = exhibit.planes[start : start + beside]
        if any(plane.name for plane in few):
            yield " " * gutter + "  ".join(set_cell_size(plane.name, cell * columns) for plane in few)
        for row, label in enumerate(labels):
            shades = ("".join(_shade(value, exhibit) * cell for value in plane.values[row]) for plane in few)
            yield f"{set_cell_size(label, gutter - 1)} {'  '.join(shades)}"
    yield from wrap(f"Columns: {_columns(exhibit)}.", width)
    yield from _scale(exhibit, width)


def _columns(exhibit: HeatMap) -> str:
    """Returns the names of the columns, from left to right. Of numbers that count up, the first and the last say
    all."""
    if exhibit.rows == exhibit.columns:
        return "the same as the rows, from left to right"
    if exhibit.columns == tuple(map(str, range(len(exhibit.columns)))):
        return f"0 to {len(exhibit.columns) - 1}, from left to right"
    return ", ".join(map(visible, exhibit.columns))


def _texts(exhibit: HeatMap, plane: Plane, labels: Sequence[str], gutter: int, cell: int) -> Iterator[str]:
    """Yields a map of texts or, without them, of numbers, each after the shade of its value."""
    if plane.name:
        yield plane.name
    yield " " * gutter + "".join(_cell(visible(column), cell) for column in exhibit.columns)
    written = plane.texts or [[number(value, 2) for value in values] for values in plane.values]
    for label, values, texts in zip(labels, plane.values, written, strict=True):
        cells = [
            f"{_shade(value, exhibit)}{_cell(visible(text), cell - 1)}"
            for value, text in zip(values, texts, strict=True)
        ]
        yield f"{set_cell_size(label, gutter - 1)} {''.join(cells)}"


def _cell(text: str, size: int) -> str:
    return set_cell_size(text if cell_len(text) < size else set_cell_size(text, max(size - 2, 1)) + "…", size)


def _shade(value: float, exhibit: HeatMap) -> str:
    if not math.isfinite(value):
        return "?"
    share = (value - exhibit.low) / (exhibit.high - exhibit.low)
    return _SHADES[min(max(math.ceil(share * (len(_SHADES) - 1)), 1), len(_SHADES) - 1) if share > _NOTHING else 0]


def _scale(exhibit: HeatMap, width: int) -> Iterator[str]:
    scale = (
        f"from {amount(exhibit.low)} (blank) over {' '.join(_SHADES[1:-1])} to {amount(exhibit.high)} ({_SHADES[-1]})"
    )
    yield from wrap(f"Shades of {exhibit.meaning or 'the values'}: {scale}.", width)


# Charts


@dataclass(frozen=True)
class _Axes:
    """The values at the borders of a plot. `low` and `high` are logarithms if `log` is true."""

    left: float
    right: float
    low: float
    high: float
    log: bool

    @classmethod
    def around(cls, points: Sequence[tuple[float, float]], *, log: bool) -> "_Axes":
        """Makes the axes that just hold `points`, which are finite. `log` is ignored if a value is zero or less."""
        log = log and all(y > 0 for _, y in points)
        scale = math.log if log else float
        low, high = min(scale(y) for _, y in points), max(scale(y) for _, y in points)
        return cls(min(x for x, _ in points), max(x for x, _ in points), low, high, log)

    def column(self, x: float, columns: int) -> int:
        """Returns the column at `x`, of `columns`."""
        return round((x - self.left) / ((self.right - self.left) or 1) * (columns - 1))

    def row(self, y: float) -> int:
        """Returns the row at `y`, from the top."""
        height = math.log(y) if self.log else y
        return round((self.high - height) / ((self.high - self.low) or 1) * (_PLOT_ROWS - 1))

    def labels(self) -> tuple[str, str]:
        """Returns the largest and the smallest value, as text."""
        top, bottom = (amount(math.exp(y) if self.log else y) for y in (self.high, self.low))
        return top, bottom


def _lines(exhibit: Lines, width: int) -> Iterator[str]:
    known = [(x, y) for line in exhibit.lines for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
    if not known:
        yield "  There is no finite value to draw."
        return
    axes = _Axes.around(known, log=exhibit.log)
    top, bottom = axes.labels()
    gutter = max(len(top), len(bottom)) + 1
    columns = width - gutter - 1
    grid = _plot(exhibit, axes, columns)
    yield f"  {exhibit.y}{', log scale' if axes.log else ''}"
    for label, cells in zip([top, *[""] * (_PLOT_ROWS - 2), bottom], grid, strict=True):
        yield f"{label:>{gutter}}┤{''.join(cells)}"
    first, last = amount(axes.left), amount(axes.right)
    between = max(columns - len(first) - len(last), len(exhibit.x) + 2)
    yield " " * (gutter + 1) + first + exhibit.x.center(between) + last
    for line, mark in zip(exhibit.lines, _MARKS, strict=False):
        yield from wrap(f"{line.name}: {ends(line)}", width, 4, first=f"  {mark} ")
    if any(_SEVERAL in cells for cells in grid):
        yield f"  {_SEVERAL} several curves"


def _plot(exhibit: Lines, axes: _Axes, columns: int) -> list[list[str]]:
    """Draws the curves: characters `(_PLOT_ROWS, columns)`, from the top. The first curve is drawn last."""
    grid = [[" "] * columns for _ in range(_PLOT_ROWS)]
    for line, mark in reversed(list(zip(exhibit.lines, _MARKS, strict=False))):
        for x, y in zip(line.x, line.y, strict=True):
            if math.isfinite(y):
                row, column = axes.row(y), axes.column(x, columns)
                grid[row][column] = mark if grid[row][column] in (" ", mark) else _SEVERAL
    return grid


def ends(line: Line) -> str:
    """Returns the first and the last value of a curve, in words; one value if it is level."""
    if not line.y:
        return "no value"
    if len(line.y) > 1 and len(set(line.y)) == 1:
        return f"always {amount(line.y[0])}"
    return amount(line.y[0]) if len(line.y) == 1 else f"from {amount(line.y[0])} to {amount(line.y[-1])}"


def _bars(exhibit: Bars, width: int) -> Iterator[str]:
    others = any(bar.other is not None for bar in exhibit.bars)
    labels = min(max((cell_len(bar.label) for bar in exhibit.bars), default=0), _LONGEST_BAR_LABEL)
    names = max(map(cell_len, exhibit.names)) if others else 0
    values = [value for bar in exhibit.bars for value in (bar.value, bar.other) if value is not None]
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    digits = max((len(amount(value)) for value in values), default=0)
    room = width - labels - names - digits - 5
    yield f"  {exhibit.unit}"
    for bar in exhibit.bars:
        for index, (name, value) in enumerate(zip(exhibit.names, (bar.value, bar.other), strict=True)):
            if value is None:
                continue
            label = _cell("" if index else bar.label, labels + 1)[:-1]
            length = round(abs(value) / most * room) if math.isfinite(value) else 0
            owner = f" {set_cell_size(name, names)}" if others else ""
            yield f"  {label}{owner} {amount(value):>{digits}} {('░' if index else '█') * length}"


# Tables


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yields a table with aligned columns; the last one is wrapped."""
    flat = [[cell.replace("\n", "⏎") for cell in row] for row in (heads, *rows)]
    sizes = [max(cell_len(row[column]) for row in flat) for column in range(len(heads))]
    while len(sizes) > 1 and sum(sizes[:-1]) + 2 * len(sizes) > width - 20 and max(sizes[:-1]) > 4:
        sizes[sizes[:-1].index(max(sizes[:-1]))] -= 1
    before = sum(sizes[:-1]) + 2 * (len(sizes) - 1)
    for index, texts in enumerate(flat):
        start = "".join(f"{_cell(cell, size + 1)} " for cell, size in zip(texts[:-1], sizes, strict=False))
        first, *more = wrap(texts[-1], max(width - before - 2, 8)) or [""]
        head = f"  {start}{first}"
        yield click.style(head, underline=True) if not index else head
        yield from (" " * (before + 2) + line for line in more)
