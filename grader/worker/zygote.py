"""The process that workers for submissions are forked from: it has imported JAX, and has initialised nothing.

For each job it forks a supervisor. That one leaves all namespaces and forks the first process of the new ones, which makes their
root folder and forks the worker. The supervisor tells the judge the exit code; when the judge hangs up, or is gone, it ends
everything. Where there are no namespaces, the worker is the supervisor's own child.
"""

import json
import os
import select
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from grader import namespaces, worker
from grader.confinement import programs, root_files
from grader.libc import DEATH_SIGNAL, DUMPABLE, SUBREAPER, prctl
from grader.sandbox import FD, inherited

_LIFE = FD + 1  # where a supervisor finds its socket


def main() -> None:
    """Forks until the judge hangs up."""
    control = inherited()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need nobody to ask for them
    root_files()  # worked out once, for all
    while True:
        data, files, _, _ = socket.recv_fds(control, 1 << 16, 3)
        if not data:
            os._exit(0)
        job = json.loads(data)
        try:
            bench = worker.prepare(job["problem"])
            worker.settle()
            if len(os.listdir("/proc/self/task")) > 1:  # JAX, too, has threads once it is initialised
                raise RuntimeError(f"{job['problem']} starts threads while it is imported: it cannot be forked")
            enters = "namespaces" not in job["without"] and _can_enter()
        except Exception:
            os.write(files[1], traceback.format_exc().encode())
        else:
            if not os.fork():
                _end_with(lambda: _supervise(job, bench, files, enters))  # noqa: B023  it ends here
        for file in files:
            os.close(file)


@cache
def _can_enter() -> bool:
    """Whether namespaces and a root folder can be made here: tried once, by a process that ends with it."""

    def attempt() -> int:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not namespaces.unshare():
            return 1
        child = os.fork()
        if not child:
            _end_with(lambda: namespaces.enter_root(Path.cwd(), root_files(), [], 1 << 20), quiet=True)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        _end_with(attempt, quiet=True)
    status = os.waitpid(child, 0)[1]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    return status == 0


def _supervise(job: dict[str, Any], bench: worker.Bench, files: list[int], enters: bool) -> int:
    """Outside of what it starts, and what the judge holds it by."""
    os.setsid()  # and no signal at its parent's death: it has to end the others first
    prctl(SUBREAPER, 1)  # what a submission disowns comes to this process, and ends with it
    prctl(DUMPABLE, 1)  # else nobody but root could write its uid_map
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel, output, life = (os.dup(file) for file in files)
    for number, file in ((1, output), (2, output), (FD, channel), (_LIFE, life)):
        os.dup2(file, number)
    os.closerange(_LIFE + 1, 1 << 16)
    for path in job["cgroup"]:
        Path(path).write_text("0")
    os.chdir(job["scratch"])
    job["number"] = os.getpid()
    # Opened now: a new root folder is also the root of this process.
    children = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    entered = enters and namespaces.unshare()
    child = os.fork()
    if not child:
        os.close(_LIFE)
        os.close(children)
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        _end_with(lambda: _first(job, bench) if entered else _work(job, bench, entered=False))
    _step_back()
    judge = socket.socket(fileno=_LIFE)  # closed by the end of this process: then all of it is over
    judge.sendall(f"{os.getpid()}\n".encode())
    select.select([judge.fileno(), os.pidfd_open(child)], [], [])
    judge.sendall(f"{_end_all(child, children)}\n".encode())
    judge.detach()
    return 0


def _first(job: Mapping[str, Any], bench: worker.Bench) -> int:
    """The first process of the new namespaces. When it ends, the kernel ends all others in them."""
    readable = [*root_files(), *programs(job, kept=False)]
    namespaces.enter_root(Path(job["scratch"]), readable, programs(job, kept=True), job["limits"]["file_size"])
    child = os.fork()
    if not child:
        _end_with(lambda: _work(job, bench, entered=True))
    _step_back()
    while True:
        ended, status = os.wait()
        if ended == child:
            return _code(status)


def _work(job: Mapping[str, Any], bench: worker.Bench, *, entered: bool) -> None:
    here = str(Path.cwd())
    os.environ.update(HOME=here, TMPDIR=here)
    tempfile.tempdir = None
    worker.work(socket.socket(fileno=FD), job, bench, entered=entered)


def _step_back() -> None:
    """Lets go of the worker's socket and output, and of what others could read of this process."""
    prctl(DUMPABLE, 0)
    os.close(FD)
    for file in (1, 2):
        os.dup2(0, file)


def _end_all(child: int, children: int) -> int:
    """Ends all processes below this one: its children, as a file of theirs lists them, and the orphans that come to it.

    Returns the child's exit code.
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
            code = _code(status)
        elif not ended:
            time.sleep(0.001)


def _code(status: int) -> int:
    """An exit code that fits into a byte: 128 and a signal's number for its death, as shells have it."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _end_with(run: Callable[[], int | None], *, quiet: bool = False) -> None:
    """Runs it and ends this process with what it returns."""
    code = 70
    try:
        code = run() or 0
    except BaseException:
        if not quiet:
            os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
