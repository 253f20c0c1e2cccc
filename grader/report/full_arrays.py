"""The arrays of a failure as text, for `grade problem NN --full`: expected beside yours, with the wrong values
marked."""

from collections.abc import Iterator

import click
import numpy as np

from commandline.terminal import PLAIN, wrap
from grader.judge.counterexample import ComparedLeaf, Counterexample
from grader.report.grids import number
from grader.wire.compare import Values

MOST_ROWS, MOST_COLUMNS, MOST_PLANES = 40, 40, 4
MOST_LEAVES = 8


def arrays(shown: Counterexample, width: int = PLAIN) -> str:
    """Returns the wrong leaves of a counterexample.

    Arrays stand beside each other if they fit into `width` columns. `click.echo` removes the colors where the output is
    not a terminal.
    """
    drawn = [leaf for leaf in shown.leaves if leaf.mismatch and leaf.wrong is not None and leaf.wrong.size]
    lines = [line for leaf in drawn[:MOST_LEAVES] for line in _leaf(leaf, width)]
    if len(drawn) > MOST_LEAVES:
        lines.append(f"{len(drawn) - MOST_LEAVES} more leaves are wrong and not shown.")
    if not drawn:
        lines.append("No arrays can be compared value by value: names, shapes or dtypes differ.")
    return "\n".join(["", *lines])


def _leaf(leaf: ComparedLeaf, width: int) -> Iterator[str]:
    axes = len(leaf.shape)
    shown = leaf.window([*[1] * (axes - 3), MOST_PLANES, MOST_ROWS, MOST_COLUMNS][-axes:] if axes else [])
    assert shown.expected is not None and shown.got is not None and shown.wrong is not None  # noqa: S101, PT018
    yield f"{leaf.path}: {leaf.expected}, wrong values are marked with *"
    for at in np.ndindex(*shown.wrong.shape[:-2]):
        if at:
            yield f"  {leaf.path}[{', '.join(map(str, shown.index((*at, 0, 0))[:-2]))}]"
        yield from _plane(shown.expected.values[at], shown.got.values[at], shown.wrong[at], width)
    if shown.wrong.shape != leaf.shape:
        kept, whole = (" x ".join(map(str, shape)) for shape in (shown.wrong.shape, leaf.shape))
        start = ", ".join(map(str, shown.start))
        yield from wrap(f"Shown: {kept} of {whole} values, from [{start}] on, around the first wrong one.", width, 2)
    yield ""


def _plane(expected: Values, got: Values, wrong: Values, columns: int) -> Iterator[str]:
    """Yields two arrays of up to two axes: beside each other where they fit, else below each other, a few columns at a
    time."""
    want, have, marks = (np.atleast_2d(side) for side in (expected, got, wrong))
    left, right = _block(want, np.zeros_like(marks)), _block(have, marks)
    widths = [max(map(_width, block), default=0) for block in (left, right)]
    if sum(widths) + 6 <= columns:
        yield f"  {'expected':{widths[0]}}  yours"
        for one, other in zip(left, right, strict=True):
            yield f"  {one}{' ' * (widths[0] - _width(one))}  {other}"
        return
    count = want.shape[1]
    step = max(1, (columns - 4) * count // max(widths))
    for start in range(0, count, step):
        part = np.s_[:, start : start + step]
        where = f", places {start} to {min(start + step, count) - 1} of each row" if step < count else ""
        yield f"  expected{where}"
        yield from (f"  {line}" for line in _block(want[part], np.zeros_like(marks[part])))
        yield f"  yours{where}"
        yield from (f"  {line}" for line in _block(have[part], marks[part]))


def _block(values: Values, wrong: Values) -> list[str]:
    """Returns one line for each row. A wrong value is followed by a star."""
    texts = [[number(value, 4) + "*" * bool(bad) for value, bad in zip(row.tolist(), mark, strict=True)]
             for row, mark in zip(values, wrong, strict=True)]  # fmt: skip
    width = max((len(text.rstrip("*")) for row in texts for text in row), default=0) + 1
    return ["".join(_colored(text, width) for text in row) for row in texts]


def _colored(text: str, width: int) -> str:
    """Returns a number, right-aligned, with the place for its mark behind it."""
    padded = f"{text.rstrip('*'):>{width}}"
    return click.style(f"{padded}*", fg="red") if text.endswith("*") else f"{padded} "


def _width(line: str) -> int:
    return len(click.unstyle(line))
