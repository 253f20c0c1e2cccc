"""Signals that are noted and answered at a convenient moment.

JAX runs Python code inside garbage collection, where Python ignores an exception such as KeyboardInterrupt: raising it
would lose the signal.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from harness.processes import closed_terminal


@contextlib.contextmanager
def noted(*numbers: int) -> Iterator[list[int]]:
    """A list of those of these signals that were received. A second one raises KeyboardInterrupt."""
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that becomes non-empty on Ctrl-C, on SIGTERM, and when the terminal closes (SIGHUP).

    What would be written to a closed terminal is dropped.
    """
    terminals = [stream.fileno() for stream in (sys.stdout, sys.stderr) if _is_terminal(stream)]
    hangups = closed_terminal()
    with noted(signal.SIGINT, signal.SIGTERM, *hangups) as received:
        if not hangups:
            yield received
            return
        note = signal.getsignal(hangups[0])

        def hang_up(number: int, frame: Any) -> None:
            with open(os.devnull, "w") as nothing:
                for terminal in terminals:
                    os.dup2(nothing.fileno(), terminal)
            if callable(note) and not received:
                note(number, frame)

        signal.signal(hangups[0], hang_up)
        yield received


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
