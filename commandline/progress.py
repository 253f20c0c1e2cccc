"""Shows progress on stderr: as a bar on a terminal, as a line every few seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0  # between two lines


@contextmanager
def progress(
    title: str, *, unit: str, total: int | None = None, done: int = 0, quiet: bool = False
) -> Iterator[Callable[..., None]]:
    """Yields a function to call with `(number, note)` as work is done. The display counts from `done` to `total`."""
    console = Console(stderr=True)
    if quiet:
        yield lambda number=1, note="": None
    elif console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} " + unit),
                   TextColumn("{task.fields[note]}"), TimeRemainingColumn())  # fmt: skip
        with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
            task = bar.add_task(title, total=total, completed=done, note="")
            yield lambda number=1, note="": bar.update(task, advance=number, note=note)
    else:
        yield _plain(title, unit, total, done)


def _plain(title: str, unit: str, total: int | None, done: int) -> Callable[..., None]:
    start, last, first = time.monotonic(), 0.0, done

    def advance(number: int = 1, note: str = "") -> None:
        nonlocal done, last
        done += number
        now = time.monotonic()
        if now - last >= PLAIN_SECONDS or done == total:
            last = now
            goal = f" of {total:,}" if total else ""
            note = f", {note}" if note else ""
            left = f", {(now - start) / max(done - first, 1) * (total - done):.0f} s left" if total else ""
            print(f"{title}: {done:,}{goal} {unit}{left}{note}", file=sys.stderr, flush=True)

    return advance
