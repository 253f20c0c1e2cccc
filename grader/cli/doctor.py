"""`grade doctor`: checks this machine, and gives a remedy for each problem that it finds."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement

from commandline import invocation
from grader.cli.resident import states
from grader.course import catalog
from grader.course.selection import selected
from grader.course.workspace import Workspace
from grader.errors import WorkerStartError
from grader.handout import project
from grader.isolation.level import Isolation, Level
from grader.isolation.sandbox import ForkServer, Workers
from grader.judge import bundled_outputs, cache, submission
from grader.judge.worker_session import Session

# The remedy for each missing layer of isolation.
REMEDIES = {
    "namespaces": "To get namespaces, grade as root or allow them: set kernel.apparmor_restrict_unprivileged_userns=0 "
    "on Ubuntu, or start the container with --cap-add SYS_ADMIN --security-opt apparmor=unconfined.",
    "landlock": "Landlock needs Linux 5.13 or newer, with landlock listed in /sys/kernel/security/lsm.",
    "seccomp": "seccomp needs Linux on x86-64 or 64-bit ARM.",
}
# The consequence of isolation that is not strict.
COST = "You can grade your own code here, but do not grade code that you do not trust."
PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "numpy", "hypothesis", "click")


@dataclass(frozen=True)
class Finding:
    """One line of the output.

    Attributes:
        subject: The subject of the check.
        state: Its state, in words.
        fine: Whether it is as it should be.
        remedy: What to do if it is not.
        serious: Whether the machine cannot grade until it is.
    """

    subject: str
    state: str
    fine: bool = True
    remedy: str = ""
    serious: bool = False


def examine(space: Workspace) -> Iterator[Finding]:
    """Checks everything, the quick things first."""
    yield Finding("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from packages()
    yield _devices()
    yield _isolation()
    yield _cache()
    yield _course()
    yield _workspace(space)
    yield Finding("resident", " ".join(states()) or "none runs; `grade problem` in a terminal leaves one behind")


def packages() -> Iterator[Finding]:
    """Yields the versions of the most important packages, and the problem with each required package that has one."""
    for wish in map(Requirement, project.metadata().dependencies):
        if wish.marker and not wish.marker.evaluate():
            continue
        remedy = f"Install one that the course works with: `{invocation.install(f'{wish.name}{wish.specifier}')}`."
        try:
            found = version(wish.name)
        except PackageNotFoundError:
            yield Finding(wish.name, "is not installed", False, remedy, serious=True)
            continue
        if not wish.specifier.contains(found, prereleases=True):
            yield Finding(
                wish.name,
                f"{found}, and the course needs {wish.specifier}",
                False,
                remedy,
                serious=wish.name in PACKAGES,
            )
        elif wish.name in PACKAGES:
            yield Finding(wish.name, found)


def _devices() -> Finding:
    program = "import jax, json; print(json.dumps([str(device) for device in jax.devices()]))"
    try:
        # A GPU that this process holds most of, in a notebook or a training, has no memory left to reserve.
        env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120, check=True
        )
        devices = ", ".join(json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.SubprocessError, ValueError, IndexError):
        remedy = "Run `python -c 'import jax; jax.devices()'` to see the error."
        return Finding("devices", "JAX does not start", False, remedy, serious=True)
    return Finding("devices", f"{devices} (the grader always uses the CPU)")


def _isolation() -> Finding:
    fork_server = ForkServer()
    try:
        return isolation_finding(measured(fork_server))
    except WorkerStartError as error:
        return Finding("isolation", "a worker does not start", False, str(error), serious=True)
    finally:
        fork_server.close()


def measured(workers: Workers) -> Isolation:
    """Returns the isolation as a worker measures it, in the same way as for a submission. Raises WorkerStartError."""
    problem = catalog.problems()[0]
    session = Session(problem, workers.worker(submission.job(problem)), 60)
    try:
        session.begin()
    finally:
        session.worker.close()
    return session.isolation


def isolation_finding(isolation: Isolation) -> Finding:
    """Returns the finding on the isolation, which is fine only if strict. Otherwise it has the remedy for each missing
    layer, or for an attack that got through all of them."""
    if isolation.level is Level.STRICT:
        return Finding("isolation", str(isolation))
    remedies = [REMEDIES[layer] for layer in isolation.missing]
    if isolation.not_stopped and not isolation.missing:
        remedies.append(
            "All layers are active, but an attack that they should stop got through. Grade on another machine, and "
            "report this."
        )
    if "scratch in memory" not in isolation.layers:
        remedies.append(
            "Without a /dev/shm that can be written, scratch folders are on the disk, where no limit on memory counts "
            "them."
        )
    remedies.append(COST)
    return Finding("isolation", str(isolation), False, " ".join(remedies))


def _cache() -> Finding:
    folder = cache.folder()
    if folder is None:
        state = "cannot be written, so every verdict computes the reference again"
        return Finding("cache", state, False, "Set GRADE_CACHE to a folder that you can write.")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Finding("cache", f"{folder}, {size / 2**20:.1f} MiB (you can delete it at any time)")


def _course() -> Finding:
    count = len(catalog.names())
    missing = [problem for problem in catalog.problems() if not bundled_outputs.is_gradable(problem)]
    if missing:
        state = f"{count} problems, {len(missing)} without a reference"
        return Finding("course", state, False, f"Restore solutions/{missing[0].name}.py.")
    return Finding("course", f"{count} problems in {selected().root}")


def _workspace(space: Workspace) -> Finding:
    if not space.folder.is_dir():
        return Finding("workspace", f"{space.folder} does not exist yet", True, "`grade start` creates it.")
    passed = sum(standing.passed for standing in space.standings().values())
    return Finding("workspace", f"{space.folder.resolve()}, {passed} passed")
