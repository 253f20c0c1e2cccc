"""Takes away, inside a worker, every privilege that a submission does not need, before any of its code is compiled.

`grader.isolation.sandbox` is the parent side. `grader.worker.zygote` has the order of the steps in a forked worker.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

from grader.isolation import landlock, namespaces, seccomp
from grader.isolation.job import Launch, Limits
from grader.isolation.level import Isolation
from grader.isolation.libc import DEATH_SIGNAL, DUMPABLE, libc, prctl
from grader.isolation.sandbox import THREADS
from grader.paths import ROOT

try:
    import resource
except ImportError:  # Windows has no such limits; the layers named then do not claim them
    resource = None  # type: ignore[assignment]

_HIGHEST_USER, _USERS = 60_000, 5_000  # a worker's user id is one of the `_USERS` ids up to the highest


def confine(launch: Launch, *, entered: bool) -> Isolation:
    """Takes away everything that the launch allows to be taken away, then tries small attacks and returns what was measured.

    `entered` says that this process has namespaces and a root folder of its own.
    """
    layers = ["own process", *(["namespaces"] if entered else [])]
    other_user = "user" not in launch.without and entered and _become_other_user(launch.number)
    layers += ["another user"] * other_user
    if resource is not None:
        _limit(launch.job.limits, other_user)
        layers.append("limits")
    layers += [f"{controller} group" for controller in launch.controllers]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    sys.path_importer_cache.clear()
    if "landlock" not in launch.without and landlock.version():
        landlock.restrict(readable(), writable(launch))
        layers.append("landlock")
    if sys.platform == "linux":
        namespaces.drop_capabilities()
        prctl(DEATH_SIGNAL, signal.SIGKILL)  # the worker dies with its parent
        if "seccomp" not in launch.without and seccomp.available():
            seccomp.restrict()
            layers.append("seccomp")
    return Isolation.measured(layers, _successful_attacks(launch.judge))


def readable() -> list[Path]:
    """What Python, JAX and XLA read while they run. Not the course: what a submission needs of it came with the job."""
    return [*_files(), *(Path("/proc", name) for name in _PROC)]


@cache
def _files() -> list[Path]:
    system = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/share/zoneinfo",
        "/lib",
        "/lib64",
        "/sys/devices/system",
    ]
    system += ["/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/random", "/dev/zero"]
    places = {Path(path) for path in sysconfig.get_paths().values()} | {Path(sys.base_prefix), Path(sys.prefix)}
    places = {path for path in places if path.exists()}
    places |= {path.resolve() for path in places}
    tops = [path for path in places if not any(other in path.parents for other in places)]
    return [Path(path) for path in system] + [found for top in tops for found in _without(top, ROOT / "solutions")]


# Not all of /proc: without namespaces, root could read there the environment of every other process, the judge's among them.
_PROC = ("self", "cpuinfo", "meminfo", "stat", "filesystems", "sys/vm", "sys/kernel")


def root_files() -> list[Path]:
    """What a root folder for a worker must have of the system's own."""
    return [*_files(), Path("/dev/null"), Path("/dev/full")]


def writable(launch: Launch) -> list[Path]:
    """The paths that a submission may write: its scratch folder, and the folder of its compiled programs if it keeps them."""
    return [Path.cwd(), Path("/dev/null"), Path("/dev/shm"), *launch.job.program_folders(writable=True)]  # noqa: S108


def _without(folder: Path, hidden: Path) -> list[Path]:
    """Paths that together cover `folder` except `hidden`: a rule of Landlock only ever allows."""
    if folder == hidden:
        return []
    if folder not in hidden.parents or not hidden.exists():
        return [folder]
    return [found for child in folder.iterdir() for found in _without(child, hidden)]


def _become_other_user(number: int) -> bool:
    """Becomes another user if this process is root's. Only in a root folder of its own, where every file is world-readable."""
    if os.geteuid() != 0:
        return False
    user = _HIGHEST_USER - number % _USERS  # no other running worker has it
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:  # a user namespace with one user only
        return False
    prctl(DUMPABLE, 1)  # a change of user takes it away, and with it the right to read one's own /proc
    return True


def _limit(limits: Limits, other_user: bool) -> None:
    def lower(what: int, value: int) -> None:
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, limits.file_size)
    if sys.platform == "linux" and os.geteuid() != 0:
        # Counts all tasks of this user, so it is relative too. Root is exempt: there a cgroup has to do it.
        tasks = 0 if other_user else _tasks()
        lower(resource.RLIMIT_NPROC, tasks + limits.processes + THREADS)
    if sys.platform == "linux":
        # Relative to what the imports took: an absolute limit would kill every submission when JAX grows.
        held = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        lower(resource.RLIMIT_DATA, held + limits.memory)


def _tasks() -> int:
    """The processes and threads that this user has now, as far as they are seen from here."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.getuid():
                count += len(os.listdir(folder / "task"))
        except OSError:
            continue
    return count


def _successful_attacks(judge: int) -> list[str]:
    """Tries small attacks on the system and on the judge, given by its process id; returns those that succeed."""

    def read_environment() -> None:
        if judge > 3:  # in a namespace of its own, the first ids belong to this worker
            Path(f"/proc/{judge}/environ").read_bytes()
        else:
            raise PermissionError

    def signal_judge() -> None:
        if judge <= 3:
            raise PermissionError
        os.kill(judge, 0)

    def write_outside() -> None:
        path = ROOT / f".probe-{os.getpid()}"
        path.touch()
        path.unlink()

    def call() -> None:
        if libc().personality(ctypes.c_ulong(0xFFFFFFFF)) < 0:  # asks and changes nothing
            raise PermissionError

    def capabilities() -> None:
        if "CapEff:\t0000000000000000" in Path("/proc/self/status").read_text():
            raise PermissionError

    attacks: dict[str, Callable[[], object]] = {
        "reads the course": (ROOT / "grader" / "problem.py").read_bytes,
        "reads the solutions": lambda: os.listdir(ROOT / "solutions"),
        "writes outside": write_outside,
        "reads the judge's environment": read_environment,
        "sends signals to the judge": signal_judge,
        "opens a network socket": lambda: socket.socket().close(),
        "starts a program": lambda: subprocess.run(["/bin/true"], check=True),
        "makes any system call": call,
        "has rights of root": capabilities,
    }
    successful = []
    for name, attack in attacks.items():
        with contextlib.suppress(Exception):
            attack()
            successful.append(name)
    return successful
