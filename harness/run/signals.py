"""Signals that are noted and answered at a convenient moment.

JAX runs Python code inside garbage collection, where Python ignores an exception such as KeyboardInterrupt: raising it would lose
the signal.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


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
