"""A tree of processes: what it uses, and its end."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

import psutil


@dataclass(frozen=True)
class Tree:
    """A process we started, by its pid (also its session's), and what came of it."""

    root: int

    def members(self) -> list[psutil.Process]:
        """The living descendants, the root itself not among them."""
        try:
            return list(psutil.Process(self.root).children(recursive=True))
        except psutil.Error:
            return []

    def uses_more_than(self, memory: int) -> bool:
        """Whether the root and all members together hold more bytes than that; what they share counts once."""

        def total(measure: Callable[[psutil.Process], int]) -> int:
            held = 0
            for process in everyone:
                with contextlib.suppress(psutil.Error):
                    held += measure(process)
            return held

        everyone = [*self.members(), *_process(self.root)]
        # Resident size counts shared pages again for each process; the exact figure is ten times as slow to get.
        if total(lambda process: process.memory_info().rss) <= memory:
            return False
        return not psutil.LINUX or total(lambda process: process.memory_full_info().pss) > memory

    def kill(self) -> None:
        """Kills until nothing is left: a tree that forks while it is killed needs more than one pass. The root is the last, so
        that what it started stays below it till then."""
        end = monotonic() + 5
        while [process for process in self.members() if _kill(process)] and monotonic() < end:
            sleep(0.01)
        if sys.platform == "win32":
            for root in _process(self.root):
                _kill(root)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)


def _process(pid: int) -> list[psutil.Process]:
    try:
        return [psutil.Process(pid)]
    except psutil.Error:
        return []


def _kill(process: psutil.Process) -> bool:
    """Kills it; False if it was gone already. A zombie of ours is reaped."""
    with contextlib.suppress(psutil.Error, ChildProcessError):
        if sys.platform != "win32" and process.status() == psutil.STATUS_ZOMBIE:
            if process.ppid() == os.getpid():
                os.waitpid(process.pid, os.WNOHANG)
            return False
        process.kill()
        return True
    return False
