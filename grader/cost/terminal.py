"""A bill for a terminal: its figures, the work of each line of the source, other programs, and the roofline."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import click

from commandline import terminal
from commandline.text import printable
from grader.cost import layout, roofline
from grader.cost.bill import Bill
from grader.cost.compare import Known, Row, explained, rows
from grader.cost.timing import Timing

YOURS, REFERENCE, OTHER, ATTEMPT = "●", "R", "o", "·"
_TITLE = 26  # columns
_VALUE = 16


def render(bill: Bill, sources: Mapping[str, str], others: Known, attempts: Sequence[Mapping[str, int]] = ()) -> str:
    """Returns a bill as text. `sources` are the texts of the program's files by name."""
    compared = rows(bill.figures, others, attempts)
    parts = [_figures(bill), _lines(bill, sources)]
    if others.programs or attempts:
        parts.append(_compared(compared, explained(bill, others), bill, others))
    parts.append(_machines(bill))
    return "\n\n".join(filter(None, parts))


def render_timing(timing: Timing) -> str:
    """Returns the time of a program beside the reference's."""
    text = f"It computes for {timing.seconds * 1000:.3g} ms in the check “{timing.check}”"
    if timing.reference_seconds is None:
        lines = [f"{text} on this machine. There is no reference here to compare with."]
    elif not timing.reference_seconds:
        lines = [f"{text}, and the reference for too short a time to measure."]
    else:
        ratio = timing.seconds / timing.reference_seconds
        lines = [f"{text}: {ratio:.2g} times the reference, which ran in turns with it on this machine."]
    for name, value in timing.counted.items():
        known = timing.reference_counted.get(name)
        lines.append(f"{name}: {value:,}" + ("" if known is None else f", the reference {known:,}"))
    return "\n".join(line for each in lines for line in terminal.wrap(each, terminal.width()))


def _figures(bill: Bill) -> str:
    rows = layout.figures(bill)
    return "\n".join(f"{title:{_TITLE}}{value:>{_VALUE},}  {unit}".rstrip() for title, value, unit in rows)


def _lines(bill: Bill, sources: Mapping[str, str]) -> str:
    columns, (found, rest) = terminal.width(), layout.lines(bill, sources)
    if not found:
        return ""
    shown = ["Where the operations and the traffic are", f"{'work':>7}{'traffic':>9}  line"]
    for name, of_file in groupby(found, key=lambda row: row.file):
        shown.append(f"  {name}")
        for row in of_file:
            text = f"{row.work:7.0%}{row.traffic:9.0%}  {row.number:4}  {printable(row.text)}"
            shown.append(text if len(text) <= columns else f"{text[: columns - 1]}…")
            shown += [f"{'':24}{row.called}"] * bool(row.called)
    if max(rest) >= layout.LEAST_SHARE:
        shown.append(f"{rest[0]:7.0%}{rest[1]:9.0%}        other lines, and the grader's code around yours")
    return "\n".join(shown)


def _compared(compared: Sequence[Row], sentence: str, bill: Bill, others: Known) -> str:
    columns = terminal.width()
    shown = ["Compared with other correct programs"]
    for row in compared:
        low, high = f"{min(row.all):,}", f"{max(row.all):,}"
        if low == high:
            shown.append(f"  {row.figure.title}: {low} in all {len(row.all)}")
            continue
        beside = "" if row.reference is None else f", the reference {row.reference:,}"
        shown.append(f"  {row.figure.title}: {row.own:,}{beside}")
        width = columns - 2 * _VALUE - 2
        line = ["─"] * width
        marks = [(ATTEMPT, row.attempts), (OTHER, row.others), (REFERENCE, [row.reference]), (YOURS, [row.own])]
        places = row.places()
        for mark, values in marks:
            for value in values:
                if value is not None:
                    line[round(places[value] * (width - 1))] = mark
        drawn = "".join(click.style(each, fg="cyan", bold=True) if each == YOURS else each for each in line)
        shown.append(f"{low:>{_VALUE}} {drawn} {high}")
    legend = {
        YOURS: "this program",
        REFERENCE: "the reference",
        OTHER: "another correct program",
        ATTEMPT: "an earlier attempt of yours",
    }
    used = {YOURS, *(REFERENCE for row in compared if row.reference is not None)}
    used |= {OTHER for row in compared if row.others} | {ATTEMPT for row in compared if row.attempts}
    says = ", ".join(f"{mark} {says}" for mark, says in legend.items() if mark in used)
    shown += terminal.wrap(f"{says}; the axes are logarithmic", columns, 2)
    if warning := others.counted_otherwise(bill):
        shown += terminal.wrap(warning, columns, 2)
    if sentence:
        shown += ["", *terminal.wrap(sentence, columns)]
    return "\n".join(shown)


def _machines(bill: Bill) -> str:
    shown = ["The shortest time, by the peak rates of four machines"]
    for each in roofline.times(bill.figures):
        binds = "arithmetic binds" if each.binds == "arithmetic" else "memory binds"
        arithmetic, memory = seconds(each.arithmetic), seconds(each.memory)
        shown.append(f"  {each.machine.name:14}{arithmetic:>10} arithmetic{memory:>11} memory   {binds}")
    return "\n".join([*shown, *terminal.wrap(roofline.LEFT_OUT, terminal.width(), 2)])


def seconds(value: float) -> str:
    """Returns a time with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
