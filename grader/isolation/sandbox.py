"""Starts workers, watches the resources that each process tree uses, and kills them: the parent side of the sandbox.

A worker is forked from the zygote, a process that has imported JAX but not initialized it. It has a clean environment,
an empty scratch folder, one socket and one pipe. References' workers are started and confined in the same way.
`grader.worker.zygote` is the other end. `grader.isolation.confinement` takes a worker's privileges away.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Protocol

from commandline.text import printable
from grader.isolation import scratch
from grader.isolation.job import Job, Launch
from grader.paths import ROOT

if TYPE_CHECKING:
    from grader.isolation.cgroup import Group
    from grader.isolation.processes import Tree

FD = 3  # the descriptor of the end of the socket of a worker or the zygote

KEPT_OUTPUT = 64 << 10
THREADS = 128  # for the threads of Python, of XLA (up to eight devices) and of Orbax
IMPORTS = 1 << 30  # bytes, for Python, JAX and their threads
SHARED = b"zygote"  # the message that carries a connection to the zygote
OWN_PROCESSES = 3  # the supervisor, the first process of the namespaces, and the worker
END_SECONDS = 5.0  # for a killed tree to disappear
# Seconds between two measurements of a tree, and for how long the short interval is used. Each measurement costs
# milliseconds.
SHORT_INTERVAL, LONG_INTERVAL, SHORT_INTERVAL_LASTS = 0.1, 0.5, 5.0

# Layers to leave out, for tests of what the others stop: namespaces, landlock, seccomp, cgroup, user.
WITHOUT = "GRADE_WITHOUT"

# Flax's own settings, which a learner may have set for all programs: a submission runs in the mode that its author
# uses.
FLAX_MODES = ("NNX_GRAPH_MODE", "NNX_GRAPH_UPDATES")


class _Process(Protocol):
    """The part of `subprocess.Popen` that is used here."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Workers(Protocol):
    """A source of workers that no submission has used before."""

    def worker(self, job: Job) -> WorkerProcess: ...


class WorkerProcess:
    """A running worker. `sock` is the judge's end of its socket. `close` kills everything that it started.

    `killed_for` names the limit that it exceeded. `came_near_memory_limit` is true if one of its processes had three
    quarters of the data that the kernel allows. A `spare` worker is started before there is work for it: it warms up,
    and its resources are not measured until `watch` is called.
    """

    def __init__(self, job: Job, fork_server: ForkServer | None = None, *, spare: bool = False) -> None:
        self.killed_for = ""
        self.came_near_memory_limit = False
        self.limits = job.limits
        self._scratch = scratch.create()
        self.sock, worker_sock = socket.socketpair()
        self._output = bytearray()
        self._done = threading.Event()
        self._group: Group | None = None
        without = frozenset(os.environ.get(WITHOUT, "").split(","))
        launch = Launch(job, Path(self._scratch), os.getpid(), without, spare=spare)
        if fork_server is None:
            process = _start("grader.worker.main", worker_sock, self._scratch, output=subprocess.PIPE)
            assert process.stdout is not None  # noqa: S101  because of PIPE
            self._process: _Process = process
            pipe: IO[bytes] = process.stdout
            self._send(launch)
        else:
            if "cgroup" not in without:
                from grader.isolation.cgroup import Group

                self._group = Group(IMPORTS + job.limits.memory, job.limits.processes + THREADS)
                launch = replace(
                    launch, cgroup_files=self._group.join_files(), controllers=tuple(sorted(self._group.controllers))
                )
            read, write = os.pipe()
            pipe = os.fdopen(read, "rb", buffering=0)
            self._process = fork_server.fork(launch, worker_sock.fileno(), write)
            os.close(write)
        worker_sock.close()
        self._printing = threading.Thread(target=self._drain, args=[pipe], daemon=True)
        self._printing.start()
        if not spare:
            self.watch()

    def watch(self) -> None:
        """Begins to measure and to limit the resources that the process tree uses."""
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu_seconds(self) -> float:
        """Returns the computing time of the worker and of all that it started, up to now, as the kernel counts it."""
        from grader.isolation.processes import cpu_seconds

        return cpu_seconds(self._tree().members())

    @property
    def closed(self) -> bool:
        return self._done.is_set()

    def wait(self, timeout: float) -> int:
        """Waits for a worker that has hung up and returns its exit code, negative for a signal. Raises
        TimeoutExpired."""
        code = self._process.wait(timeout)
        if self._group and self._group.ran_out_of_memory():  # the kernel killed it before the watcher did
            self.killed_for = self.killed_for or self._too_much_memory()
        return code

    def close(self) -> str:
        """Kills the worker and everything it started. Returns its output, at most 64 kB, made printable."""
        if self._done.is_set():
            return ""
        self._done.set()
        self._end()
        self.sock.close()
        if self._group:
            self._group.remove()
        self._printing.join(timeout=2)
        scratch.remove(self._scratch)
        return printable(bytes(self._output).decode("utf-8", "replace"))

    def _end(self) -> None:
        if isinstance(self._process, ForkedProcess):
            self._process.hang_up()  # its supervisor kills the whole tree
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._tree().kill()
        else:
            self._tree().kill()
            self._process.wait()

    def _send(self, launch: Launch) -> None:
        from grader.wire.channel import ChannelError, Frame, send

        with contextlib.suppress(ChannelError):  # the process is already gone; the first request to it reports that
            send(self.sock, Frame("start", launch.encode()))

    def _tree(self) -> Tree:
        from grader.isolation.processes import Tree  # psutil is imported while the worker does its own imports

        return Tree(self._process.pid)

    def _watch(self) -> None:
        """Enforces the limits on the whole tree, which the kernel enforces for one process at a time."""
        from grader.isolation.processes import largest_data, use_more_than

        tree, start = self._tree(), monotonic()
        while not self._done.wait(SHORT_INTERVAL if monotonic() - start < SHORT_INTERVAL_LASTS else LONG_INTERVAL):
            members = tree.members()
            self.came_near_memory_limit |= largest_data(members) > self.limits.memory // 4 * 3
            if len(members) > self.limits.processes + OWN_PROCESSES:
                self.killed_for = f"it started more than {self.limits.processes} processes"
            elif use_more_than(IMPORTS + self.limits.memory, members) or (
                self._group and self._group.ran_out_of_memory()
            ):
                self.killed_for = self._too_much_memory()
            if self.killed_for:
                tree.kill()
                return

    def _too_much_memory(self) -> str:
        return f"it used more than {self.limits.memory >> 20} MiB of memory"

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while part := os.read(pipe.fileno(), 1 << 16):
                self._output += part[: KEPT_OUTPUT - len(self._output)]


class ForkedProcess:
    """A process forked by the fork server, and its supervisor at the other end of the socket `life`.

    The supervisor sends two lines: its own process id and, at the end, the exit code (negative for a signal). When the
    judge hangs up, the supervisor kills everything.
    """

    def __init__(self, life: socket.socket) -> None:
        self._life = life
        self._started, self._ended = threading.Event(), threading.Event()
        self._pid, self._code = 0, -9  # SIGKILL
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The supervisor's process id; 0 if the process never started."""
        self._started.wait()
        return self._pid

    def wait(self, timeout: float | None = None) -> int:
        """Waits until the whole tree is gone and returns the exit code. Raises TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        return self._code

    def hang_up(self) -> None:
        """Makes the supervisor kill everything."""
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)

    def _listen(self) -> None:
        received = b""
        with self._life:
            while part := self._life.recv(64):
                received += part
                lines = received.decode("ascii", "replace").split("\n")
                if len(lines) > 1:
                    self._pid = int(lines[0])
                    self._started.set()
                if len(lines) > 2:
                    self._code = int(lines[1])
        self._started.set()
        self._ended.set()


class ForkServer:
    """The judge's handle on the zygote, the process that workers are forked from.

    The zygote starts to import at once, or when `start` is called. If it dies, it is restarted. On a system where
    forking is not safe, each worker is a new process instead. `control` is the connection to the zygote; None without
    one. That of another process of the same user may be given, to be used until its zygote ends.
    """

    def __init__(self, control: socket.socket | None = None, *, starts: bool = True) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.control = control
        if starts:
            self.start()

    @property
    def is_in_use(self) -> bool:
        """Whether a process that the zygote forked is running."""
        if self._process is None:
            return False
        pid = self._process.pid
        try:
            return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        except OSError:  # it has ended
            return False

    def start(self) -> None:
        """Starts the zygote where there is none and forking is safe."""
        if self.control is None and sys.platform == "linux":
            self._start()

    def worker(self, job: Job, *, spare: bool = False) -> WorkerProcess:
        """Starts a worker, or a spare one."""
        return WorkerProcess(job, self if self.control else None, spare=spare)

    def share(self, sock: socket.socket) -> None:
        """Sends a connection to the zygote to another process of the same user. Raises OSError if there is no
        zygote."""
        if self.control is None:
            raise ConnectionRefusedError
        socket.send_fds(sock, [SHARED], [self.control.fileno()])

    def fork(self, launch: Launch, channel: int, output: int) -> ForkedProcess:
        """Forks a process that talks to the judge on descriptor `channel` and prints to descriptor `output`."""
        judge_end, life = socket.socketpair()
        with life:
            data = json.dumps(launch.encode()).encode()
            for attempt in range(2):
                assert self.control is not None  # noqa: S101  only then `worker` calls this
                try:
                    socket.send_fds(self.control, [data], [channel, output, life.fileno()])
                    break
                except OSError:
                    if attempt:
                        raise
                    self.close()
                    self._start()
        scratch.hold()  # while the process starts
        return ForkedProcess(judge_end)

    def close(self) -> None:
        """Kills the zygote and whatever it forked that is still running."""
        if self.control:
            self.control.close()
            self.control = None
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
            scratch.remove(self._home)

    def _start(self) -> None:
        self._home = scratch.create()
        self.control, zygote_sock = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with zygote_sock:
            self._process = _start("grader.worker.zygote", zygote_sock, self._home)


def _start(module: str, sock: socket.socket, home: str, output: int | None = None) -> subprocess.Popen[bytes]:
    """Starts `main` of a module as a process that talks on `sock` and inherits nothing else."""
    # -I: no PYTHON* variables, no user site, no current folder on the path.
    command = [sys.executable, "-I", "-c", _BOOT, str(ROOT), str(sock.fileno()), module]
    error = None if output is None else subprocess.STDOUT
    if sys.platform == "win32":
        process = subprocess.Popen(
            command, cwd=home, env=_environment(home), stdin=subprocess.PIPE, stdout=output, stderr=error
        )
        assert process.stdin is not None  # noqa: S101  because of PIPE
        with process.stdin as pipe:
            pipe.write(sock.share(process.pid))
    else:
        process = subprocess.Popen(
            command, pass_fds=[sock.fileno()], cwd=home, env=_environment(home), stdin=subprocess.DEVNULL,
            stdout=output, stderr=error, start_new_session=True,
        )  # fmt: skip
    scratch.hold()  # while the process does its imports
    return process


def inherited() -> socket.socket:
    """Returns the socket that `_start` passed to this process."""
    if sys.platform == "win32":  # sockets are not descriptors there
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=FD)


# Runs before any module of the grader is imported. The socket becomes descriptor 3; all higher descriptors are closed.
_BOOT = f"""
import gc, os, sys
gc.disable()
if sys.platform != "win32":
    os.dup2(int(sys.argv[2]), {FD})
    os.closerange({FD + 1}, 65536)
sys.path.insert(0, sys.argv[1])
from importlib import import_module
import_module(sys.argv[3]).main()
"""


def _environment(home: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT", *FLAX_MODES) if name in os.environ}
    return {
        **kept,
        "USERPROFILE" if sys.platform == "win32" else "HOME": home,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",  # a verdict must not depend on the machine's accelerator
        "LANG": "C.UTF-8",
        # Otherwise NumPy starts threads when imported; forks and Landlock need a single thread.
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": os.defpath,
        "PYTHONHASHSEED": "0",  # the order of a set of texts is the same in each grading
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TMPDIR": home,
    }
