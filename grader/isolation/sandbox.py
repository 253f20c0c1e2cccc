"""Starts workers, watches what the whole tree of each uses, and ends all of it: the judge's half of the isolation.

A worker for a submission is forked from a zygote, a process that has imported JAX and not initialised it; the worker of a
reference is a process of its own that never forks. Either has a clean environment, an empty scratch folder, one socket and one
pipe. `grader.zygote` is the other end; how a worker gives up its rights is in `grader.confinement`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Protocol

from grader import scratch
from grader.course import ROOT

if TYPE_CHECKING:
    from grader.cgroup import Group
    from grader.processes import Tree

FD = 3  # where a worker, or a zygote, finds its end of the socket

KEPT_OUTPUT = 64 << 10
THREADS = 128  # that Python, XLA (with eight devices, too) and Orbax may start themselves
IMPORTS = 1 << 30  # bytes that Python, JAX and its threads may hold themselves
OURS = 2  # processes of ours in a worker's tree, beside the worker
END_SECONDS = 5.0  # for a tree to be gone
# Seconds between two looks at what a tree uses, and how long one looks often: a look takes some milliseconds of a processor.
WATCH_OFTEN, WATCH_SELDOM, WATCHED_OFTEN = 0.1, 0.5, 5.0

# Layers that are left out, for tests of what the others stop: namespaces, landlock, seccomp, cgroup, user.
WITHOUT = "GRADE_WITHOUT"


@dataclass(frozen=True)
class Limits:
    """What one worker and all it starts may use. Memory in bytes, above what it holds after its imports."""

    memory: int = 2 << 30
    file_size: int = 256 << 20
    processes: int = 32


@dataclass(frozen=True)
class Job:
    """What a worker is started for.

    `cache` is where XLA's programs for it are found and, if `keeps_programs`, kept. For `long_runs` they are optimised.
    """

    problem: str
    devices: int = 1
    long_runs: bool = False
    limits: Limits = field(default_factory=Limits)
    cache: Path | None = None
    keeps_programs: bool = True


class _Process(Protocol):
    """What of `subprocess.Popen` is used here."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Worker:
    """A running worker process and `sock`, our end of its socket. Nothing it started outlives `close`."""

    def __init__(self, job: Job, zygote: Zygote | None = None) -> None:
        self.killed_for = ""
        self.limits = job.limits
        self._scratch = scratch.make()
        self.sock, theirs = socket.socketpair()
        self._output = bytearray()
        self._done = threading.Event()
        self._group: Group | None = None
        message: dict[str, Any] = {
            **asdict(job), "cache": str(job.cache or ""), "scratch": self._scratch, "judge": os.getpid(),
            "without": os.environ.get(WITHOUT, "").split(","), "cgroup": [], "controllers": [],
        }  # fmt: skip
        if zygote is None:
            direct = _start("grader.worker", theirs, self._scratch, output=subprocess.PIPE)
            assert direct.stdout is not None  # noqa: S101  it was asked for
            self._process: _Process = direct
            pipe: IO[bytes] = direct.stdout
            self._send_job(message)
        else:
            if "cgroup" not in message["without"]:
                from grader.cgroup import Group

                self._group = Group(IMPORTS + job.limits.memory, job.limits.processes + THREADS)
                message["cgroup"] = self._group.join_files()
                message["controllers"] = sorted(self._group.controllers)
            read, write = os.pipe()
            pipe = os.fdopen(read, "rb", buffering=0)
            self._process = zygote.fork(message, theirs.fileno(), write)
            os.close(write)
        theirs.close()
        self._threads = [
            threading.Thread(target=self._drain, args=[pipe], daemon=True),
            threading.Thread(target=self._watch, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, timeout: float) -> int:
        """The exit code of a worker that has hung up; negative for a signal. Raises TimeoutExpired."""
        code = self._process.wait(timeout)
        if self._group and self._group.ran_out_of_memory():  # the kernel was faster than we
            self.killed_for = self.killed_for or self._too_much_memory()
        return code

    def close(self) -> str:
        """Ends the worker and everything it started. Returns what was printed, cut to 64 kB and made printable."""
        if self._done.is_set():
            return ""
        self._done.set()
        self._end()
        self.sock.close()
        if self._group:
            self._group.remove()
        self._threads[0].join(timeout=2)
        scratch.remove(self._scratch)
        return printable(bytes(self._output).decode("utf-8", "replace"))

    def _end(self) -> None:
        if isinstance(self._process, Forked):
            self._process.hang_up()  # its supervisor ends all of it
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._tree().kill()
        else:
            self._tree().kill()
            self._process.wait()

    def _send_job(self, message: dict[str, Any]) -> None:
        from grader.channel import ChannelError, Frame, send

        with contextlib.suppress(ChannelError):  # it is gone already: whoever asks it something will see that
            send(self.sock, Frame("start", message))

    def _tree(self) -> Tree:
        from grader.processes import Tree  # psutil is imported while the worker does its own imports

        return Tree(self._process.pid)

    def _watch(self) -> None:
        """Enforces what no limit of a process adds up over a tree of them."""
        tree, begun = self._tree(), monotonic()
        while not self._done.wait(WATCH_OFTEN if monotonic() - begun < WATCHED_OFTEN else WATCH_SELDOM):
            if len(tree.members()) > self.limits.processes + OURS:
                self.killed_for = f"it started more than {self.limits.processes} processes"
            elif tree.uses_more_than(IMPORTS + self.limits.memory) or (self._group and self._group.ran_out_of_memory()):
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


class Forked:
    """A process that a zygote forked for us. `life` is a socket to its supervisor: it says the process's id and, at the end,
    the exit code; and when we hang up, it ends everything."""

    def __init__(self, life: socket.socket) -> None:
        self._life = life
        self._begun, self._over = threading.Event(), threading.Event()
        self._pid, self._code = 0, -9  # SIGKILL
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The supervisor's process id; 0 if the process never began."""
        self._begun.wait()
        return self._pid

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once everything is gone. Raises TimeoutExpired."""
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        return self._code

    def hang_up(self) -> None:
        """Ends it."""
        with contextlib.suppress(OSError):
            self._life.shutdown(socket.SHUT_WR)

    def _listen(self) -> None:
        said = b""
        with self._life:
            while part := self._life.recv(64):
                said += part
                words = said.decode("ascii", "replace").split("\n")
                if len(words) > 1:
                    self._pid = int(words[0])
                    self._begun.set()
                if len(words) > 2:
                    code = int(words[1])
                    self._code = code if code < 128 else 128 - code  # a signal, as shells have it
        self._begun.set()
        self._over.set()


class Zygote:
    """Where workers for submissions come from. It begins to import at once, and starts again if it is gone.

    Where processes cannot be forked safely, each worker is a new process.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if sys.platform == "linux":
            self._start()

    def worker(self, job: Job) -> Worker:
        """A worker, begun."""
        return Worker(job, self if self._process else None)

    def fork(self, message: dict[str, Any], channel: int, output: int) -> Forked:
        """A process for this job that speaks on `channel` and prints to `output`."""
        ours, life = socket.socketpair()
        with life:
            data = json.dumps(message).encode()
            for attempt in range(2):
                try:
                    socket.send_fds(self._control, [data], [channel, output, life.fileno()])
                    break
                except OSError:
                    if attempt:
                        raise
                    self.close()
                    self._start()
        return Forked(ours)

    def close(self) -> None:
        """Ends it, and whatever it forked that is still there."""
        if self._process:
            self._control.close()
            self._process.kill()
            self._process.wait()
            scratch.remove(self._home)

    def _start(self) -> None:
        self._home = scratch.make()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start("grader.zygote", theirs, self._home)


def _start(module: str, sock: socket.socket, home: str, output: int | None = None) -> subprocess.Popen[bytes]:
    """Starts the `main` of a module as a process that speaks on `sock`, with nothing else of ours."""
    # -I: no PYTHON* variables, no user site, no current folder on the path.
    command = [sys.executable, "-I", "-c", _BOOT, str(ROOT), str(sock.fileno()), module]
    error = None if output is None else subprocess.STDOUT
    if sys.platform == "win32":
        process = subprocess.Popen(
            command, cwd=home, env=_environment(home), stdin=subprocess.PIPE, stdout=output, stderr=error
        )
        assert process.stdin is not None  # noqa: S101  it was asked for
        with process.stdin as pipe:
            pipe.write(sock.share(process.pid))
        return process
    return subprocess.Popen(
        command, pass_fds=[sock.fileno()], cwd=home, env=_environment(home), stdin=subprocess.DEVNULL,
        stdout=output, stderr=error, start_new_session=True,
    )  # fmt: skip


def inherited() -> socket.socket:
    """In a process that `_start` began: its end of the socket."""
    if sys.platform == "win32":  # where a socket is no descriptor
        return socket.fromshare(sys.stdin.buffer.read())
    return socket.socket(fileno=FD)


# Runs before anything of ours can be imported: the socket becomes descriptor 3, and all above it are closed.
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
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    return {
        **kept,
        "USERPROFILE" if sys.platform == "win32" else "HOME": home,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",  # a verdict must not depend on the accelerator of the machine
        "LANG": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",  # else NumPy starts a thread at import: a fork needs one thread, and so has Landlock
        "PATH": os.defpath,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TMPDIR": home,
    }


def printable(text: str) -> str:
    """Text of unknown origin with control characters escaped, safe for a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
