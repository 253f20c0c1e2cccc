"""A cap on the processes and threads of a whole tree, kept by the kernel, where this process may make a cgroup.

Root's own limit on processes is not enforced by the kernel, and a watchdog alone is starved by a fork bomb. See
cgroups(7), the pids controller; version 1 and version 2 are both found.
"""

import contextlib
from pathlib import Path
from time import sleep

_TOP = Path("/sys/fs/cgroup")


def cap(pid: int, tasks: int) -> Path | None:
    """Puts a process into a new cgroup that may hold that many tasks; None where that is not possible."""
    for parent in _parents():
        group = parent / f"grade-{pid}"
        try:
            for old in parent.glob("grade-*"):  # of judges that were killed
                if not Path("/proc", old.name.removeprefix("grade-")).exists():
                    old.rmdir()
            group.mkdir()
            (group / "pids.max").write_text(str(tasks))
            (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            remove(group)
            continue
        return group
    return None


def remove(group: Path) -> None:
    """Removes a cgroup as soon as the last of its dead is gone."""
    for _ in range(50):
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            sleep(0.01)
        else:
            return


def _parents() -> list[Path]:
    """The cgroups of this process that could hold one with a pids controller."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "pids" in controllers.split(","):
                found.append(_TOP / "pids" / path.lstrip("/"))
            elif not controllers:
                found.append(_TOP / path.lstrip("/"))
    return found
