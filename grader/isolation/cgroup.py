"""A cap on the memory and the processes of a whole tree, kept by the kernel, where this process may make a cgroup.

Root's own limit on processes is not enforced by the kernel, no limit of a process adds up over its children, and a watchdog
alone is starved by a fork bomb. See cgroups(7); version 1 and version 2 are both found, and each controller by itself.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from time import sleep

_TOP = Path("/sys/fs/cgroup")
_CONTROLLERS = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max",)}
_numbers = itertools.count()


class Group:
    """A new group for one tree of processes. `controllers` are those that could be had; none is no error."""

    def __init__(self, memory: int, tasks: int) -> None:
        self.controllers: set[str] = set()
        self.folders: list[Path] = []
        caps = {"memory": memory, "pids": tasks}
        for parent, offered in _parents():
            with contextlib.suppress(OSError):
                _sweep(parent)
                folder = parent / f"grade-{os.getpid()}-{next(_numbers)}"
                folder.mkdir()
                self.folders.append(folder)
                for controller in offered - self.controllers:
                    file = next((folder / name for name in _CONTROLLERS[controller] if (folder / name).exists()), None)
                    if file:
                        file.write_text(str(caps[controller]))
                        self.controllers.add(controller)

    def join_files(self) -> tuple[Path, ...]:
        """The files that a process writes a 0 to, to join the group."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel ended a member because the group's memory was full."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError, ValueError):
                    counts = dict(line.split() for line in (folder / name).read_text().splitlines())
                    if int(counts.get("oom_kill", 0)):
                        return True
        return False

    def remove(self) -> None:
        """Removes the group as soon as the last of its dead is gone."""
        for folder in self.folders:
            for _ in range(100):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    sleep(0.01)
                else:
                    break


def _sweep(parent: Path) -> None:
    """Removes the groups of judges that were killed."""
    for old in parent.glob("grade-*"):
        if not Path("/proc", old.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                old.rmdir()


def _parents() -> Iterator[tuple[Path, set[str]]]:
    """The cgroups of this process that could hold one of ours, with the controllers it would have."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                for top in (_TOP, _TOP / "unified"):
                    if (top / "cgroup.procs").exists():
                        yield top / path.lstrip("/"), set(_CONTROLLERS)
            for controller in set(controllers.split(",")) & set(_CONTROLLERS):
                yield _TOP / controller / path.lstrip("/"), {controller}
