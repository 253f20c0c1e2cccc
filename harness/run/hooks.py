"""What the training loop does every so many steps, and what runs beside it."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax

from harness.errors import PieceError
from harness.processes import decided_by_first


class Hook(NamedTuple):
    """Work that is due every so many steps and after the last one, and if `minutes` is set, so long after the last
    time."""

    every: int
    run: Callable[[], None]
    minutes: float = 0.0

    def is_due(self, step: int, last_step: int, seconds_ago: float) -> bool:
        """Whether the work is due after `step`; the last time was `seconds_ago`."""
        late = self.minutes > 0 and seconds_ago >= 60 * self.minutes
        return step % self.every == 0 or step == last_step or late


class Hooks:
    """The hooks of a run, in the order in which those that are due run after a step."""

    def __init__(self, *hooks: Hook):
        self.hooks = hooks
        self.last = dict.fromkeys(hooks, time.monotonic())

    def run_due(self, step: int, last_step: Callable[[], int]) -> None:
        """Runs what is due after `step`. A hook may change the last step for those after it."""
        for hook in self.hooks:
            seconds = time.monotonic() - self.last[hook]
            if hook.minutes:  # the clocks of several processes differ
                seconds = decided_by_first(partial(float, seconds))
            if hook.is_due(step, last_step(), seconds):
                hook.run()
                self.last[hook] = time.monotonic()


class Aside:
    """Runs work that training need not wait for in a thread, one after another.

    An error of a piece is raised by the next call. Any other one, such as that of a full disk, is reported once for
    each name: training needs none of this work.
    """

    def __init__(self, mesh: jax.sharding.Mesh, log: Callable[[str], None]):
        self._mesh, self._log = mesh, log  # a new thread has no mesh
        self._failed: set[str] = set()
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")
        self._running: dict[str, Future[None]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> None:
        """Starts `work` as soon as all earlier work has ended. Waits first for earlier work of the same name."""
        if name in self._running:
            self._finish(name)
        self._running[name] = self._threads.submit(self._with_mesh, work)

    def _finish(self, name: str) -> None:
        try:
            self._running[name].result()
        except PieceError:
            raise
        except Exception as error:
            if name not in self._failed:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else error
                self._log(f"The {name} could not be written: {reason}. Training continues.")
            self._failed.add(name)

    def _with_mesh(self, work: Callable[[], Any]) -> None:
        with jax.set_mesh(self._mesh):
            work()

    def wait(self) -> None:
        """Waits for all work."""
        for name in self._running:
            self._finish(name)

    def close(self) -> None:
        """Waits for work that has started, drops the rest, and ends the thread."""
        self._threads.shutdown(cancel_futures=True)
