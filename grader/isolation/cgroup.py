"""Limits on the memory and the processes of a whole tree, enforced by the kernel, where this process may create a
cgroup.

Other limits do not suffice: the kernel does not limit root's processes, the limits of a process do not add up over its
children, and a fork bomb starves a watchdog. See cgroups(7). Versions 1 and 2 both work, and each controller is
optional.
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
    """A new cgroup for one tree of processes. `controllers` are the ones available; there may be none."""

    def __init__(self, memory: int, tasks: int) -> None:
        self.controllers: set[str] = set()
        self.folders: list[Path] = []
        limits = {"memory": memory, "pids": tasks}
        for parent, available in _parents():
            with contextlib.suppress(OSError):
                _sweep(parent)
                folder = parent / f"grade-{os.getpid()}-{next(_numbers)}"
                folder.mkdir()
                self.folders.append(folder)
                for controller in available - self.controllers:
                    file = next((folder / name for name in _CONTROLLERS[controller] if (folder / name).exists()), None)
                    if file:
                        file.write_text(str(limits[controller]))
                        self.controllers.add(controller)

    def join_files(self) -> tuple[Path, ...]:
        """Returns the files to which a process writes 0 to join the group."""
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def ran_out_of_memory(self) -> bool:
        """Returns whether the kernel killed a member because the group reached its memory limit."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError, ValueError):
                    counts = dict(line.split() for line in (folder / name).read_text().splitlines())
                    if int(counts.get("oom_kill", 0)):
                        return True
        return False

    def remove(self) -> None:
        """Removes the group once its last process has been reaped."""
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
    for folder in parent.glob("grade-*"):
        if not Path("/proc", folder.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _parents() -> Iterator[tuple[Path, set[str]]]:
    """Yields the cgroups of this process in which a group can be created, with the controllers that it would have."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                for top in (_TOP, _TOP / "unified"):
                    if (top / "cgroup.procs").exists():
                        yield top / path.lstrip("/"), set(_CONTROLLERS)
            for controller in set(controllers.split(",")) & set(_CONTROLLERS):
                yield _TOP / controller / path.lstrip("/"), {controller}
