"""Shows progress on stderr: as a bar or a spinner on a terminal, as lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from commandline.terminal import can_redraw

PLAIN_SECONDS = 10.0  # between two lines
PATIENCE_SECONDS = 1.0  # before a command that shows nothing yet shows that it works


@contextmanager
def progress(
    title: str, *, unit: str, total: int | None = None, done: int = 0, quiet: bool = False
) -> Iterator[Callable[..., None]]:
    """Yields a function to call with `(number, note)` as work is done. The display counts from `done` to `total`."""
    if quiet:
        yield lambda number=1, note="": None
    elif can_redraw(sys.stderr):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} " + unit),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
            task = bar.add_task(title, total=total, completed=done, note="")
            yield lambda number=1, note="": bar.update(task, advance=number, note=note)
    else:
        yield _plain(title, unit, total, done)


def _plain(title: str, unit: str, total: int | None, done: int) -> Callable[..., None]:
    start, last, first = 0.0, 0.0, done

    def advance(number: int = 1, note: str = "") -> None:
        nonlocal done, last, start, first
        done += number
        now = time.monotonic()
        if not start:  # the time for the first unit includes imports and compilation
            start, first = now, done
        if now - last >= PLAIN_SECONDS or done == total:
            last = now
            goal = f" of {total:,}" if total else ""
            note = f", {note}" if note else ""
            left = f", {(now - start) / (done - first) * (total - done):.0f} s left" if total and done > first else ""
            print(f"{title}: {done:,}{goal} {unit}{left}{note}", file=sys.stderr, flush=True)

    return advance


@contextmanager
def working(title: str, *, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with the current activity. Nothing is shown in the first second.

    Then a terminal shows a spinner with the latest text and the time. A terminal that cannot redraw shows the title,
    once. Where nothing can be redrawn, `lines` prints each text as a line.
    """
    if can_redraw(sys.stderr):
        with _spinner(title) as say:
            yield say
        return
    timer = _later(lambda: print(f"{title} ...", file=sys.stderr, flush=True) if sys.stderr.isatty() else None)
    try:
        yield lambda text: print(text, file=sys.stderr, flush=True) if lines else None
    finally:
        timer.cancel()


@contextmanager
def _spinner(title: str) -> Iterator[Callable[[str], None]]:
    text, lock = title, threading.Lock()
    display: Any = None
    ended = False

    def start() -> None:
        nonlocal display
        from rich.console import Console  # a thread has time to import it, and a quick command need not
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        note = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        with lock:
            if ended:
                return
            display = Progress(
                SpinnerColumn(),
                note,
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                refresh_per_second=8,
                redirect_stdout=False,  # it may be a pipe
            )
            display.add_task(text, total=None)
            display.start()

    def say(latest: str) -> None:
        nonlocal text
        with lock:
            text = latest
            if display:
                display.update(display.task_ids[0], description=latest)

    timer = _later(start)
    try:
        yield say
    finally:
        timer.cancel()
        with lock:
            ended = True
            if display:
                display.stop()


def _later(action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(PATIENCE_SECONDS, action)
    timer.daemon = True
    timer.start()
    return timer
