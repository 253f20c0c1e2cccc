"""A bill for a terminal: its figures, the work of each line of the source, other programs, and the roofline."""

from collections.abc import Mapping, Sequence

import click

from commandline import terminal
from grader.cost import roofline
from grader.cost.bill import KINDS, Bill
from grader.cost.compare import Known, Row, explained, rows
from grader.cost.figures import WORK
from grader.cost.timing import Timing

YOURS, REFERENCE, OTHER, ATTEMPT = "●", "R", "o", "·"
LEAST_SHARE = 0.005  # of all operations: a line with less is left out
_TITLE = 26  # columns
_VALUE = 16


def render(
    bill: Bill, sources: Mapping[str, str], others: Known, attempts: Sequence[Mapping[str, int]] = ()
) -> str:
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
    figures, work = bill.figures, max(1, WORK.of(bill.figures))
    found = [
        ("scalar operations", WORK.of(figures), ""),
        *((f"  {title}", figures[kind], f"{figures[kind] / work:.0%}") for kind, title in KINDS.items()),
        ("memory at the peak", figures["peak_bytes"], "bytes, without inputs"),
        ("  outputs", figures["bytes_of_outputs"], ""),
    ]
    if figures["carried_bytes"]:
        found.append(("  carried by a loop", figures["carried_bytes"], ""))
    found += [
        ("memory traffic", figures["read_bytes"] + figures["written_bytes"], "bytes"),
        ("  read", figures["read_bytes"], ""),
        ("  written", figures["written_bytes"], ""),
        ("longest chain", figures["chain"], "operations, one after another"),
        ("size of the program", figures["operations"], "operations, as it was traced"),
    ]
    if figures["collectives"]:
        found += [
            ("collectives", figures["collectives"], "runs"),
            ("  results on each device", figures["sent_bytes"], "bytes"),
            ("  hops around the ring", figures["hops"], ""),
        ]
    return "\n".join(f"{title:{_TITLE}}{value:>{_VALUE},}  {unit}".rstrip() for title, value, unit in found)


def _lines(bill: Bill, sources: Mapping[str, str]) -> str:
    work, columns = WORK.of(bill.figures), terminal.width()
    if not work:
        return ""
    texts = {name: text.splitlines() for name, text in sources.items()}
    shown, file = ["Where the operations are"], None
    for line in bill.lines:
        if line.work < LEAST_SHARE * work or line.file not in texts:
            continue
        if line.file != file:
            file = line.file
            shown.append(f"  {file}")
        source = texts[file][line.line - 1].strip() if line.line <= len(texts[file]) else ""
        row = f"{line.work / work:7.0%}  {line.line:4}  {source}"
        shown.append(row if len(row) <= columns else f"{row[: columns - 1]}…")
        calls = sorted({number for name, number in line.callers if name == file})
        if len(calls) > 1:
            shown.append(f"{'':15}called in lines {', '.join(map(str, calls[:-1]))} and {calls[-1]}")
    rest = work - sum(line.work for line in bill.lines if line.work >= LEAST_SHARE * work and line.file in texts)
    if rest >= LEAST_SHARE * work:
        shown.append(f"{rest / work:7.0%}        other lines, and the grader's code around yours")
    return "\n".join(shown)


def _compared(compared: Sequence[Row], sentence: str, bill: Bill, others: Known) -> str:
    columns = terminal.width()
    shown = ["Compared with other correct programs"]
    for row in compared:
        low, high = f"{min(row.all):,}", f"{max(row.all):,}"
        if low == high:
            shown.append(f"  {row.figure.title:{_TITLE - 2}}{low:>{_VALUE - 2}} in all {len(row.all)}")
            continue
        width = columns - _TITLE - 2 * _VALUE + 2
        line = ["─"] * width
        marks = [(ATTEMPT, row.attempts), (OTHER, row.others), (REFERENCE, [row.reference]), (YOURS, [row.own])]
        places = row.places()
        for mark, values in marks:
            for value in values:
                if value is not None:
                    line[round(places[value] * (width - 1))] = mark
        drawn = "".join(click.style(each, fg="cyan", bold=True) if each == YOURS else each for each in line)
        shown.append(f"  {row.figure.title:{_TITLE - 2}}{low:>{_VALUE - 2}} {drawn} {high}")
    marks = {
        YOURS: "this program",
        REFERENCE: "the reference",
        OTHER: "another correct program",
        ATTEMPT: "an earlier attempt of yours",
    }
    used = {YOURS, *(REFERENCE for row in compared if row.reference is not None)}
    used |= {OTHER for row in compared if row.others} | {ATTEMPT for row in compared if row.attempts}
    shown += terminal.wrap(", ".join(f"{mark} {says}" for mark, says in marks.items() if mark in used), columns, 2)
    if others.counted_with not in ("", bill.counted_with):
        shown += terminal.wrap(
            f"The other programs were counted with {others.counted_with}, this one with {bill.counted_with}: the same "
            "code may be traced to slightly different programs.", columns, 2,
        )  # fmt: skip
    if sentence:
        shown += ["", *terminal.wrap(sentence, columns)]
    return "\n".join(shown)


def _machines(bill: Bill) -> str:
    shown = ["The shortest time, by the peak rates of four machines"]
    for each in roofline.times(bill.figures):
        binds = "arithmetic binds" if each.binds == "arithmetic" else "memory binds"
        arithmetic, memory = _seconds(each.arithmetic), _seconds(each.memory)
        shown.append(f"  {each.machine.name:14}{arithmetic:>10} arithmetic{memory:>11} memory   {binds}")
    return "\n".join([*shown, *terminal.wrap(roofline.LEFT_OUT, terminal.width(), 2)])


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
