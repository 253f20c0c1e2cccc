"""Gives up, inside a worker, what a submission does not need: the worker's half of the isolation.

Called once, after the trusted imports and before a byte of a submission is compiled. `grader.sandbox` is the judge's half.
"""

import contextlib
import ctypes
import os
import signal
import sys
import sysconfig
from pathlib import Path

from grader import landlock
from grader.course import ROOT
from grader.sandbox import THREADS

try:
    import resource
except ImportError:  # Windows has no such limits; the layers named then do not claim them
    resource = None  # type: ignore[assignment]


def confine(limits: dict[str, int], cache: str) -> str:
    """Gives up, in the calling worker, what a submission does not need. Returns what is in force, in words."""
    layers = ["own process"]
    if resource is not None:
        _limit(limits)
        layers.append("limits")
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    sys.path_importer_cache.clear()
    if landlock.version():
        writable = [Path.cwd(), Path("/dev/null"), *([Path(cache)] if cache else [])]
        landlock.restrict(_readable(), writable)
        layers.append("landlock")
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: not to outlive the judge
    return ", ".join(layers)


def _limit(limits: dict[str, int]) -> None:
    def lower(what: int, value: int) -> None:
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, limits["file_size"])
    if sys.platform == "linux" and os.geteuid() != 0:
        # Counts all tasks of this user, so it is relative too. Root is exempt: there a cgroup has to do it.
        lower(resource.RLIMIT_NPROC, _tasks() + limits["processes"] + THREADS)
    if sys.platform == "linux":
        # Relative to what the imports took: an absolute limit would kill every submission when JAX grows.
        held = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        lower(resource.RLIMIT_DATA, held + limits["memory"])


def _tasks() -> int:
    """The processes and threads that this user has now."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                count += len(os.listdir(folder / "task"))
    return count


def _readable() -> list[Path]:
    """What Python, JAX and XLA read while they run. Not the course: what a submission needs of it came with the job."""
    system = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/lib", "/lib64", "/sys/devices"]
    system += ["/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/random", "/dev/zero"]
    # Not all of /proc: there root could read the environment of every other process, the judge's among them.
    system += [
        f"/proc/{name}" for name in ("self", "cpuinfo", "meminfo", "stat", "filesystems", "sys/vm", "sys/kernel")
    ]
    installed = {Path(path) for path in sysconfig.get_paths().values()} | {Path(sys.base_prefix), Path(sys.prefix)}
    installed = {path.resolve() for path in installed if path.exists()}
    tops = [path for path in installed if not any(other in path.parents for other in installed)]
    return [Path(path) for path in system] + [found for top in tops for found in _without(top, ROOT / "solutions")]


def _without(folder: Path, hidden: Path) -> list[Path]:
    """Paths that together cover `folder` except `hidden`: a rule of Landlock only ever allows."""
    if folder == hidden:
        return []
    if folder not in hidden.parents or not hidden.exists():
        return [folder]
    return [found for child in folder.iterdir() for found in _without(child, hidden)]
