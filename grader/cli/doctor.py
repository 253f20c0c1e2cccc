"""What this machine offers, and what to do about what it lacks."""

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from grader.course import catalog
from grader.course.workspace import Workspace
from grader.isolation.job import Job
from grader.isolation.level import Isolation, Level
from grader.isolation.sandbox import ForkServer
from grader.judge import cache, recorded
from grader.judge.session import Session
from grader.paths import PROBLEMS

# What to do about a layer of isolation that is missing.
REMEDIES = {
    "namespaces": "Namespaces: grade as root, or allow them (kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu; in a "
    "container, --cap-add SYS_ADMIN --security-opt apparmor=unconfined).",
    "landlock": "Landlock: needs Linux 5.13 or newer, with landlock in /sys/kernel/security/lsm.",
    "seccomp": "seccomp: needs Linux on x86-64 or 64-bit ARM.",
}
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "hypothesis", "click")


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and what to do if it is not fine."""

    subject: str
    says: str
    fine: bool = True
    remedy: str = ""
    serious: bool = False


def examine(space: Workspace) -> Iterator[Finding]:
    """Looks at everything, the quick things first."""
    yield Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in PACKAGES:
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            remedy = "Install the course again: python3 -m pip install -e ."
            yield Finding(package, "is not installed", False, remedy, serious=True)
    yield from _devices()
    yield _isolation()
    yield _cache()
    yield _course()
    yield _workspace(space)


def _devices() -> Iterator[Finding]:
    program = "import jax, json; print(json.dumps([str(device) for device in jax.devices()]))"
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
        found = ", ".join(json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.SubprocessError, ValueError, IndexError):
        yield Finding(
            "devices", "JAX does not start", False, "Run `python -c 'import jax; jax.devices()'` and read on.", True
        )
        return
    yield Finding("devices", f"{found} (graders always use the CPU)")


def _isolation() -> Finding:
    """As measured by a worker, the way a submission's is."""
    fork_server = ForkServer()
    session = Session(catalog.problems()[0], fork_server.worker(Job(catalog.names()[0])), 60)
    failure = session.begin()
    output = session.worker.close()
    fork_server.close()
    if failure:
        return Finding("isolation", "a worker does not start", False, (output or failure.sentence()).strip(), True)
    return isolation_finding(session.isolation)


def isolation_finding(isolation: Isolation) -> Finding:
    """Fine only if strict. Otherwise the remedy for each layer that is missing and for each attack that got through."""
    if isolation.level is Level.STRICT:
        return Finding("isolation", str(isolation))
    remedies = [REMEDIES[layer] for layer in isolation.missing]
    if isolation.not_stopped and not isolation.missing:
        remedies.append(
            "All layers are active, but a test attack got through; grade on another machine and report this as SECURITY.md says."
        )
    remedies.append("It is safe to grade your own code, but not code that you do not trust.")
    return Finding("isolation", str(isolation), False, " ".join(remedies))


def _cache() -> Finding:
    found = cache.folder()
    if found is None:
        return Finding(
            "cache",
            "nowhere to write: every verdict computes the reference again",
            False,
            "Set GRADE_CACHE to a folder.",
        )
    size = sum(path.stat().st_size for path in found.rglob("*") if path.is_file())
    return Finding("cache", f"{found}, {size / 2**20:.1f} MiB (may be deleted at any time)")


def _course() -> Finding:
    count = len(catalog.names())
    missing = [problem.name for problem in catalog.problems() if not recorded.is_gradable(problem)]
    if missing:
        return Finding("course", f"{count} problems, {len(missing)} without a reference", False, f"First: {missing[0]}")
    return Finding("course", f"{count} problems in {PROBLEMS}")


def _workspace(space: Workspace) -> Finding:
    if not space.folder.is_dir():
        return Finding("workspace", f"{space.folder} is not there yet", True, "`grade start` makes it.")
    passed = sum(row.verdict == "PASS" for row in space.progress().values())
    return Finding("workspace", f"{space.folder.resolve()}, {passed} passed")
