"""A tree of processes: its members, their memory, and how to kill it."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import psutil


@dataclass(frozen=True)
class Tree:
    """A process and its descendants. `root` is its process id, and also the id of its session."""

    root: int

    def members(self) -> list[psutil.Process]:
        """Returns the living processes, the root first."""
        if LISTS_CHILDREN:
            found = [self.root]
            for process in found:  # which grows
                found += _children(process)
            return [member for process in found for member in _process(process)]
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self.root)
            return [root, *root.children(recursive=True)]
        return []

    def kill(self) -> None:
        """Kills every process. A tree that forks while it is being killed needs several passes. The root is killed
        last, because its descendants are found through it."""
        end = monotonic() + 5
        while sum(_kill(each) for each in self.members() if each.pid != self.root) and monotonic() < end:
            sleep(0.01)
        if sys.platform == "win32":
            for root in _process(self.root):
                _kill(root)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.root, signal.SIGKILL)


def largest_data(processes: Sequence[psutil.Process]) -> int:
    """Returns the largest data segment of a process, in bytes, whether it is resident or not; 0 where the system does
    not say."""
    return max(_measured(processes, lambda process: getattr(process.memory_info(), "data", 0)), default=0)


def use_more_than(memory: int, processes: Sequence[psutil.Process]) -> bool:
    """Returns whether processes together use more than `memory` bytes. Shared memory counts once."""
    # Resident size counts a shared page once per process. The exact figure takes ten times as long to get.
    if sum(_measured(processes, lambda process: process.memory_info().rss)) <= memory:
        return False
    return not psutil.LINUX or sum(_measured(processes, lambda process: process.memory_full_info().pss)) > memory


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Returns the computing time of processes, and of their children that have ended."""
    return float(sum(_measured(processes, lambda process: sum(process.cpu_times()[:4]))))


def _measured(processes: Sequence[psutil.Process], measure: Callable[[psutil.Process], Any]) -> Iterator[Any]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            yield measure(process)


# Linux lists the children of each thread. Elsewhere they are found among all processes of the machine, which takes long
# if there are many.
LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children(pid: int) -> list[int]:
    """Returns the process ids of a process's children, on Linux."""
    found = list[int]()
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.scandir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"{thread.path}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


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
