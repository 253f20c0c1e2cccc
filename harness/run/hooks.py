"""What the training loop does every so many steps, and what runs beside it."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax


class Hook(NamedTuple):
    """Work that is due every so many steps and after the last one, and if `minutes` is set, so long after the last time."""

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

    def run_due(self, step: int, last_step: int) -> None:
        """Runs what is due after `step`."""
        for hook in self.hooks:
            if hook.is_due(step, last_step, time.monotonic() - self.last[hook]):
                hook.run()
                self.last[hook] = time.monotonic()


class Aside:
    """Runs work that training need not wait for in a thread, one after another. An error is raised by the next call."""

    def __init__(self, mesh: jax.sharding.Mesh):
        self._mesh = mesh  # of this thread; a new thread has none
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aside")
        self._running: dict[str, Future[None]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> None:
        """Starts `work` as soon as all earlier work has ended. Waits first for earlier work of the same name."""
        if name in self._running:
            self._running[name].result()
        self._running[name] = self._threads.submit(self._with_mesh, work)

    def _with_mesh(self, work: Callable[[], Any]) -> None:
        with jax.set_mesh(self._mesh):
            work()

    def wait(self) -> None:
        """Waits for all work."""
        for future in self._running.values():
            future.result()

    def close(self) -> None:
        """Waits for work that has started, drops the rest, and ends the thread."""
        self._threads.shutdown(cancel_futures=True)
