"""A tree of processes: its members, its memory, and how to kill it."""

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
    """A process and its descendants. `root` is its process id, and also the id of its session."""

    root: int

    def members(self) -> list[psutil.Process]:
        """The living descendants, without the root."""
        try:
            return list(psutil.Process(self.root).children(recursive=True))
        except psutil.Error:
            return []

    def largest_data(self) -> int:
        """The largest data segment of a descendant, in bytes, whether it is resident or not; 0 where the system does not say."""
        sizes = [0]
        for process in self.members():
            with contextlib.suppress(psutil.Error):
                sizes.append(getattr(process.memory_info(), "data", 0))
        return max(sizes)

    def uses_more_than(self, memory: int) -> bool:
        """Whether the root and its descendants together use more than `memory` bytes. Shared memory counts once."""

        def total(measure: Callable[[psutil.Process], int]) -> int:
            size = 0
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    size += measure(process)
            return size

        processes = [*self.members(), *_process(self.root)]
        # Resident size counts a shared page once per process. The exact figure takes ten times as long to get.
        if total(lambda process: process.memory_info().rss) <= memory:
            return False
        return not psutil.LINUX or total(lambda process: process.memory_full_info().pss) > memory

    def kill(self) -> None:
        """Kills every process. A tree that forks while it is being killed needs several passes. The root is killed last,
        because its descendants are found through it."""
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
    """Kills a process. Returns False if it was already dead. Reaps a zombie that is a child of this process."""
    with contextlib.suppress(psutil.Error, ChildProcessError):
        if sys.platform != "win32" and process.status() == psutil.STATUS_ZOMBIE:
            if process.ppid() == os.getpid():
                os.waitpid(process.pid, os.WNOHANG)
            return False
        process.kill()
        return True
    return False
