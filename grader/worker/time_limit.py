"""The time limit of one request to a worker."""

import contextlib
import math
import os
import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from time import process_time
from types import FrameType

from grader.wire.clock import Clock


class OutOfTimeError(BaseException):
    """The time for a request is up. Raised in the middle of the running code, so that its traceback shows the place."""


# Python raises RecursionError at a depth of 1000, but JAX may need half a minute to trace that far.
DEEPEST = 400  # calls of one function of a submission inside each other
LOOKS = 16  # at the depth, in the time for a request
LEAST_INTERVAL = 0.01  # seconds between two looks


def computing() -> float:
    """Returns the seconds of computing of this process and of its children that have ended. One that waits for a child
    is not asleep."""
    times = os.times()
    return process_time() + times.children_user + times.children_system


@contextlib.contextmanager
def time_limit(seconds: float, clock: Clock, files: Mapping[str, str], cpu_seconds: float = math.inf) -> Iterator[None]:
    """Raises OutOfTimeError when the clock, which has `seconds` left, is up, or after `cpu_seconds` of computing, where
    the system has timers. The judge ends a process that ignores it.

    Raises RecursionError before, if a function of one of the `files` calls itself without end.
    """
    cpu_end = process_time() + cpu_seconds
    interval = max(min(seconds, cpu_seconds) / LOOKS, LEAST_INTERVAL)

    def stop(_: int, frame: FrameType | None) -> None:
        depths = Counter(each.f_code for each, _ in traceback.walk_stack(frame))
        own = [depth for code, depth in depths.items() if code.co_filename in files.values()]
        if max(own, default=0) >= DEEPEST:
            raise RecursionError
        if clock.is_up() or process_time() >= cpu_end:
            raise OutOfTimeError

    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
