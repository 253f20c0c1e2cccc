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

from grader.isolation import landlock, namespaces, scratch, seccomp
from grader.isolation.job import Launch, Limits
from grader.isolation.level import Isolation
from grader.isolation.libc import DEATH_SIGNAL, DUMPABLE, libc, prctl
from grader.isolation.sandbox import THREADS
from grader.paths import ROOT

try:
    import resource
except ImportError:  # Windows has no such limits; the layers named then do not claim them
    resource = None  # type: ignore[assignment]

# The course's own code. Of a course that was installed normally, it lies among the packages that a submission may
# import.
_CODE = tuple(ROOT / name for name in ("commandline", "grader", "harness", "studio"))

_HIGHEST_USER, _USERS = 60_000, 5_000  # a worker's user id is one of the `_USERS` ids up to the highest


def confine(launch: Launch, *, namespaced: bool) -> Isolation:
    """Confines this process with every layer that the launch does not leave out, then tries small attacks from inside.

    `namespaced` says that this process already has its own namespaces and root folder. Returns the measured isolation.
    """
    layers = ["own process", *(["namespaces"] if namespaced else [])]
    other_user = "user" not in launch.without and namespaced and _become_other_user(launch.number)
    layers += ["another user"] * other_user
    if resource is not None:
        _limit(launch.job.limits, other_user)
        layers.append("limits")
    layers += [f"{controller} group" for controller in launch.controllers]
    layers += ["scratch in memory"] * (namespaced or launch.scratch.is_relative_to(scratch.MEMORY))
    # Imports list the packages' folder. Of a course that was installed normally, the names of its files can be listed
    # there too.
    packages = Path(sysconfig.get_path("purelib")).resolve()
    if packages != ROOT:
        sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    sys.path_importer_cache.clear()
    if "landlock" not in launch.without and landlock.version():
        landlock.restrict(readable(launch.job.hidden), writable(launch, namespaced=namespaced), [packages])
        layers.append("landlock")
    if sys.platform == "linux":
        namespaces.drop_capabilities()
        prctl(DEATH_SIGNAL, signal.SIGKILL)  # the worker dies with its parent
        if "seccomp" not in launch.without and seccomp.available():
            seccomp.restrict()
            layers.append("seccomp")
    return Isolation.measured(layers, _successful_attacks(launch))


def readable(hidden: tuple[Path, ...]) -> list[Path]:
    """Returns the paths that Python, JAX and XLA read while they run, without the hidden folders. The grader is not
    among them."""
    return [*_system_files(hidden), *(Path("/proc", name) for name in _PROC)]


@cache
def _system_files(hidden: tuple[Path, ...]) -> list[Path]:
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
    python = {Path(path) for path in sysconfig.get_paths().values()} | {Path(sys.base_prefix), Path(sys.prefix)}
    python = {path for path in python if path.exists()}
    python |= {path.resolve() for path in python}
    tops = [path for path in python if not any(other in path.parents for other in python)]
    paths = [*map(Path, system), *tops]
    for folder in (*_CODE, *hidden):
        paths = [path for top in paths for path in _without(top, folder)]
    return paths


# Not all of /proc: without namespaces, root could read the environment of every process there, including the judge's.
_PROC = ("self", "cpuinfo", "meminfo", "stat", "filesystems", "sys/vm", "sys/kernel")


def root_files(hidden: tuple[Path, ...]) -> list[Path]:
    """Returns the paths of the system that a worker's root folder contains."""
    return [*_system_files(hidden), Path("/dev/null"), Path("/dev/full")]


def writable(launch: Launch, *, namespaced: bool) -> list[Path]:
    """Returns the paths that a submission may write to: its scratch folders.

    /dev/shm is one of them where it is the worker's own. Elsewhere, files would remain there.
    """
    own = [scratch.MEMORY] if namespaced else []
    return [Path.cwd(), Path("/dev/null"), *own]


def _without(folder: Path, hidden: Path) -> list[Path]:
    """Returns the paths that together cover `folder` except `hidden`, because a Landlock rule can only allow."""
    real = folder.resolve()  # a rule for a symbolic link would allow what it points to
    if real == hidden:
        return []
    if real not in hidden.parents or not hidden.exists():
        return [folder]
    return [path for child in real.iterdir() for path in _without(child, hidden)]


def _can_read(folder: Path) -> bool:
    """Returns whether any file below a folder can be read."""
    for path in folder.rglob("*.*"):
        with contextlib.suppress(OSError):
            path.open("rb").close()
            return True
    return False


def _become_other_user(number: int) -> bool:
    """Changes this process to another user if it is root's. Only in a root folder of its own, and if any user can read
    Python there."""
    if os.geteuid() != 0 or not _is_for_all():
        return False
    user = _HIGHEST_USER - number % _USERS  # no other running worker has it
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:  # a user namespace with one user only
        return False
    prctl(DUMPABLE, 1)  # a change of user clears it, and with it the right to read /proc/self
    return True


def _is_for_all() -> bool:
    """Returns whether any user can read this Python and its packages. An environment in a private folder is root's
    alone."""
    folders = (sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"))
    files = (os.__file__, getattr(sys.modules.get("jax"), "__file__", None) or os.__file__)
    wanted = [(folder, 0o005) for folder in folders] + [(file, 0o004) for file in files]
    return all(os.stat(path).st_mode & bits == bits for path, bits in wanted)


def _limit(limits: Limits, other_user: bool) -> None:
    def lower(limit: int, value: int) -> None:
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))

    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_FSIZE, limits.file_size)
    if sys.platform == "linux" and os.geteuid() != 0:
        # The kernel counts all tasks of this user, so the existing ones are added. Root is exempt; a cgroup limits it
        # instead.
        tasks = 0 if other_user else _tasks()
        lower(resource.RLIMIT_NPROC, tasks + limits.processes + THREADS)
    if sys.platform == "linux":
        # Relative to the memory that the imports hold: with an absolute limit, a larger JAX would fail every
        # submission.
        in_use = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        lower(resource.RLIMIT_DATA, in_use + limits.memory)


def _tasks() -> int:
    """Returns the number of processes and threads of this user that are visible in /proc."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.getuid():
                count += len(os.listdir(folder / "task"))
        except OSError:
            continue
    return count


def _successful_attacks(launch: Launch) -> list[str]:
    """Tries small attacks on the system, on the course and on the judge; returns those that succeed."""
    judge = launch.judge  # its process id

    def read_environment() -> None:
        if judge > 3:  # in a new process namespace, the first ids belong to this worker
            Path(f"/proc/{judge}/environ").read_bytes()
        else:
            raise PermissionError

    def signal_judge() -> None:
        if judge <= 3:
            raise PermissionError
        os.kill(judge, 0)

    def read_solutions() -> None:
        if not any(map(_can_read, launch.job.hidden)):
            raise PermissionError

    def write_outside() -> None:
        path = ROOT / f".probe-{os.getpid()}"
        path.touch()
        path.unlink()

    def make_denied_call() -> None:
        if libc().personality(ctypes.c_ulong(0xFFFFFFFF)) < 0:  # a query, which changes nothing
            raise PermissionError

    def have_capabilities() -> None:
        if "CapEff:\t0000000000000000" in Path("/proc/self/status").read_text():
            raise PermissionError

    attacks: dict[str, Callable[[], object]] = {
        "reads the course": (ROOT / "grader" / "problem.py").read_bytes,
        "reads the solutions": read_solutions,
        "writes outside": write_outside,
        "reads the judge's environment": read_environment,
        "sends signals to the judge": signal_judge,
        "opens a network socket": lambda: socket.socket().close(),
        "starts a program": lambda: subprocess.run(["/bin/true"], check=True),
        "makes a denied system call": make_denied_call,
        "has root capabilities": have_capabilities,
    }
    successful = []
    for name, attack in attacks.items():
        with contextlib.suppress(Exception):
            attack()
            successful.append(name)
    return successful
