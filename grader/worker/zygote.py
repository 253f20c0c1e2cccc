"""The process that submissions' workers are forked from. It has imported JAX and initialized nothing.

For each job it forks a supervisor. The supervisor creates namespaces and forks their first process, which makes a root
folder and forks the worker. The supervisor reports the worker's exit code to the judge. When the judge hangs up or
dies, the supervisor kills the whole tree. Without namespaces, the worker is the supervisor's own child.
"""

import json
import os
import select
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from grader.isolation import namespaces
from grader.isolation.confinement import root_files
from grader.isolation.job import Launch
from grader.isolation.libc import DEATH_SIGNAL, DUMPABLE, SUBREAPER, prctl
from grader.isolation.sandbox import FD, inherited
from grader.worker import main as worker
from grader.worker.warm_up import before_fork

_LIFE = FD + 1  # the supervisor's socket to the judge
_STATUS = FD + 2  # to which the first process of the namespaces writes the exit code of the worker


def main() -> None:
    """Forks until the judge hangs up."""
    control = inherited()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are reaped automatically
    before_fork()
    while True:
        data, files, _, _ = socket.recv_fds(control, 1 << 16, 3)
        if not data:
            os._exit(0)
        try:
            launch = Launch.decode(json.loads(data))
            runtime = worker.prepare(launch.job.folder)
            root_files(launch.job.hidden)  # computed once, for all children
            worker.settle()
            if len(os.listdir("/proc/self/task")) > 1:  # such as those of an initialized JAX
                raise RuntimeError(
                    f"importing the probes of {launch.job.folder.name} started threads, so the zygote cannot fork"
                )
            can_enter = "namespaces" not in launch.without and _can_enter_namespaces(launch.job.hidden)
        except Exception:
            os.write(files[1], traceback.format_exc().encode())
        else:
            if not os.fork():
                _end_with(lambda: _supervise(launch, runtime, files, can_enter))  # noqa: B023  the process ends here
        for file in files:
            os.close(file)


@cache
def _can_enter_namespaces(hidden: tuple[Path, ...]) -> bool:
    """Returns whether this system allows namespaces and a new root folder. Tried once, in a separate process."""

    def attempt() -> int:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not namespaces.unshare():
            return 1
        child = os.fork()
        if not child:
            _end_with(lambda: namespaces.enter_root(Path.cwd(), root_files(hidden), 1 << 20), quiet=True)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        _end_with(attempt, quiet=True)
    status = os.waitpid(child, 0)[1]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return status == 0


def _supervise(launch: Launch, runtime: worker.ProblemRuntime, files: list[int], can_enter: bool) -> int:
    """Starts a worker, watches over it from outside its namespaces, and kills what is left of it."""
    os.setsid()  # without a death signal, because it must kill the others before it ends
    prctl(SUBREAPER, 1)  # orphans of the submission become its children, so it can kill them
    prctl(DUMPABLE, 1)  # otherwise only root could write its uid_map
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel, output, life = (os.dup(file) for file in files)
    read_status, write_status = os.pipe()
    for number, file in ((1, output), (2, output), (FD, channel), (_LIFE, life), (_STATUS, write_status)):
        os.dup2(file, number)
    read_status = os.dup2(read_status, _STATUS + 1)
    os.closerange(_STATUS + 2, 1 << 16)
    runtime = worker.extended(runtime, launch.job)
    for path in launch.cgroup_files:
        path.write_text("0")
    os.chdir(launch.scratch)
    launch = replace(launch, number=os.getpid())
    # Opened now, because a new root folder becomes the root of this process, too.
    children = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    namespaced = can_enter and namespaces.unshare()
    child = os.fork()
    if not child:
        for file in (_LIFE, read_status, children):
            os.close(file)
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        _end_with(lambda: _first(launch, runtime) if namespaced else _work(launch, runtime, namespaced=False))
    _step_back()
    os.close(_STATUS)
    judge = socket.socket(fileno=_LIFE)  # closes when this process ends, after everything else has ended
    judge.sendall(f"{os.getpid()}\n".encode())
    select.select([judge.fileno(), os.pidfd_open(child)], [], [])
    code = _end_all(child, children)
    # The first process writes the worker's code here, because its own, one byte, cannot hold both exit codes and
    # signals.
    worker_code = os.read(read_status, 16)
    judge.sendall(f"{int(worker_code) if worker_code else code}\n".encode())
    judge.detach()
    return 0


def _first(launch: Launch, runtime: worker.ProblemRuntime) -> int:
    """Runs as the first process of the new namespaces. When it ends, the kernel kills all other processes in them."""
    job = launch.job
    namespaces.enter_root(launch.scratch, root_files(job.hidden), job.limits.file_size)
    child = os.fork()
    if not child:
        _end_with(lambda: _work(launch, runtime, namespaced=True))
    _step_back()
    while True:
        ended, status = os.wait()
        if ended == child:
            os.write(_STATUS, str(os.waitstatus_to_exitcode(status)).encode())
            return 0


def _work(launch: Launch, runtime: worker.ProblemRuntime, *, namespaced: bool) -> None:
    os.close(_STATUS)
    scratch = str(Path.cwd())
    os.environ.update(HOME=scratch, TMPDIR=scratch)
    tempfile.tempdir = None
    worker.work(socket.socket(fileno=FD), launch, runtime, namespaced=namespaced)


def _step_back() -> None:
    """Closes the worker's socket and output, and makes this process non-dumpable."""
    prctl(DUMPABLE, 0)
    os.close(FD)
    for file in (1, 2):
        os.dup2(0, file)


def _end_all(child: int, children: int) -> int:
    """Kills all descendants of this process: those listed in its `children` file, and the orphans that become its
    children.

    Returns the child's exit code, negative for a signal.
    """
    code = 0
    while True:
        for pid in os.pread(children, 1 << 16, 0).split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
        elif not ended:
            time.sleep(0.001)


def _end_with(run: Callable[[], int | None], *, quiet: bool = False) -> None:
    """Calls `run` and ends this process with the exit code that it returns."""
    code = 70
    try:
        code = run() or 0
    except BaseException:
        if not quiet:
            os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
