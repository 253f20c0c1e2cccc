"""The time limit of a submission: a busy machine takes none of it, so that the same file gets the same verdict."""

from collections.abc import Callable
from time import monotonic

PATIENCE = 10.0  # times the limit, for a worker that computes whenever the machine lets it
# Of the time spent computing: what computes less waits for itself. With the lowest priority, beside three programs of
# normal priority, a worker gets 0.005.
ASLEEP = 0.004
LOOKING = 0.03  # seconds, which a process that sleeps needs for the looks at its own time
LEAST_LOOK = 0.5  # seconds, in which the computing time can be measured that precisely
NEARLY = 0.05  # of the limit: with less than that left, the time is up


class Clock:
    """Watches a limit of `seconds`, from now on or up to `deadline`, in seconds of `time.monotonic`.

    `used` measures the computing time of the watched process. If that is less than the limit when the time has passed,
    the process gets the rest of it, up to PATIENCE times the limit, unless it was asleep. `starved` says afterwards
    that the patience has ended before the process got half of the limit.
    """

    def __init__(self, seconds: float, used: Callable[[], float], deadline: float | None = None) -> None:
        self.seconds = seconds
        self._used, self._looked_at, self._seen = used, monotonic(), used()
        self.deadline = self._looked_at + seconds if deadline is None else deadline
        self._latest = self.deadline + (PATIENCE - 1) * seconds
        self._paused_at: float | None = None
        self.starved = False

    def pause(self) -> None:
        """Stops the clock: the process has nothing to do."""
        self._paused_at = monotonic()

    def go_on(self) -> None:
        """Ends a pause, if there is one. It takes none of the limit."""
        if self._paused_at is not None:
            idle = monotonic() - self._paused_at
            self.deadline, self._latest = self.deadline + idle, self._latest + idle
            self._looked_at, self._paused_at = self._looked_at + idle, None

    def is_up(self) -> bool:
        """Returns whether the time is up. If not, `deadline` may have moved."""
        now = monotonic()
        if now < self.deadline:
            return False
        used, elapsed = self._used(), now - self._looked_at
        asleep = elapsed >= LEAST_LOOK and used - self._seen < max(ASLEEP * elapsed, LOOKING)
        left = min(self.seconds - used, self._latest - now)
        if asleep or left < NEARLY * self.seconds:
            self.starved = not asleep and used < self.seconds / 2
            return True
        self._looked_at, self._seen, self.deadline = now, used, now + left
        return False
