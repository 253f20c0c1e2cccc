"""The time limit of one request to a worker."""

import contextlib
import math
import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from time import monotonic, process_time
from types import FrameType


class OutOfTimeError(BaseException):
    """The time for a request is up. Raised in the middle of whatever runs, so that its traceback says where that was."""


# Python raises RecursionError at a depth of 1000, but JAX may need half a minute to trace that far.
DEEPEST = 400  # calls of one function of a submission inside each other
LOOKS = 16  # at the depth, in the time for a request


@contextlib.contextmanager
def time_limit(seconds: float, files: Mapping[str, str], cpu_seconds: float = math.inf) -> Iterator[None]:
    """Raises OutOfTimeError after this time, or after this time of the CPU, where the system has timers. The judge ends a
    process that ignores it.

    Raises RecursionError before, if a function of one of the `files` calls itself without end.
    """
    end, cpu_end = monotonic() + seconds, process_time() + cpu_seconds
    interval = min(seconds, cpu_seconds) / LOOKS

    def stop(_: int, frame: FrameType | None) -> None:
        depths = Counter(each.f_code for each, _ in traceback.walk_stack(frame))
        own = [depth for code, depth in depths.items() if code.co_filename in files.values()]
        if max(own, default=0) >= DEEPEST:
            raise RecursionError
        if monotonic() >= end or process_time() >= cpu_end:
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
