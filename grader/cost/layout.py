"""The rows of a bill, which a terminal and a page draw in their own ways."""

from collections.abc import Mapping
from dataclasses import dataclass

from grader.cost.bill import KINDS, Bill
from grader.cost.figures import TRAFFIC, WORK

_SAYS = {"products": "", "elementwise": "", "moved": ", looked up, written or sorted"}
LEAST_SHARE = 0.005  # of all operations, and of all bytes: a line with less of both is left out


@dataclass(frozen=True)
class LineRow:
    """A line of the source: its file, its number, its shares of the operations and of the traffic, its text, and the
    lines of the file that call its function, if they are several."""

    file: str
    number: int
    work: float
    traffic: float
    text: str
    callers: tuple[int, ...]

    @property
    def called(self) -> str:
        """Returns in words where its function is called; empty if in one line."""
        *most, last = self.callers or [0]
        return f"called in lines {', '.join(map(str, most))} and {last}" if most else ""


def figures(bill: Bill) -> list[tuple[str, int, str]]:
    """Returns the figures of a bill: title, value and unit. The title of a part is indented."""
    found, work = bill.figures, max(1, WORK.of(bill.figures))
    rows = [
        ("scalar operations", WORK.of(found), ""),
        *((f"  {title}", found[kind], f"{found[kind] / work:.0%}{_SAYS[kind]}") for kind, title in KINDS.items()),
        ("memory at the peak", found["peak_bytes"], "bytes, without inputs"),
        ("  outputs", found["bytes_of_outputs"], ""),
    ]
    if found["carried_bytes"]:
        rows.append(("  carried by a loop", found["carried_bytes"], "outputs may be among them"))
    rows += [
        ("memory traffic", found["read_bytes"] + found["written_bytes"], "bytes, elementwise operations fused"),
        ("  read", found["read_bytes"], ""),
        ("  written", found["written_bytes"], ""),
        ("longest chain", found["chain"], "operations that wait for each other"),
        ("size of the program", found["operations"], "operations, as it was traced"),
    ]
    if found["collectives"]:
        rows += [
            ("collectives", found["collectives"], "runs"),
            ("  results on each device", found["sent_bytes"], "bytes"),
            ("  hops around the ring", found["hops"], ""),
        ]
    return rows


def lines(bill: Bill, texts: Mapping[str, str]) -> tuple[list[LineRow], tuple[float, float]]:
    """Returns the lines with the operations and the traffic, in the order of the source, and the two shares of all
    others. `texts` are those of the files by name."""
    work, traffic = max(1, WORK.of(bill.figures)), max(1, TRAFFIC.of(bill.figures))
    found, rest = [], (0.0, 0.0)
    for line in bill.lines:
        shares = line.work / work, line.traffic / traffic
        if max(shares) < LEAST_SHARE or line.file not in texts:
            rest = rest[0] + shares[0], rest[1] + shares[1]
            continue
        source = texts[line.file].splitlines()
        text = source[line.line - 1].strip() if 1 <= line.line <= len(source) else ""
        callers = tuple(sorted({number for file, number in line.callers if file == line.file}))
        found.append(LineRow(line.file, line.line, *shares, text, callers))
    return found, rest
