"""Starts a worker, watches what its whole tree of processes uses, and ends all of it: the judge's half of the isolation.

A worker has a clean environment, an empty scratch folder, one socket and one pipe. The half that runs in the worker, which
gives up rights before a byte of a submission is compiled, is `grader.confinement`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import IO, TYPE_CHECKING

from grader import cgroup
from grader.course import ROOT

if TYPE_CHECKING:
    from grader.processes import Tree

FD = 3  # where a worker finds its end of the socket

KEPT_OUTPUT = 64 << 10
THREADS = 128  # that Python, XLA (with eight devices, too) and Orbax may start themselves
IMPORTS = 1 << 30  # bytes that Python, JAX and its threads may hold themselves

# Tiny programs: compile fast rather than run fast. Both workers compile alike, so this changes no verdict.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


@dataclass(frozen=True)
class Limits:
    """What one worker and all it starts may use. Memory in bytes, above what it holds after its imports."""

    memory: int = 2 << 30
    file_size: int = 256 << 20
    processes: int = 32


class Worker:
    """A running worker process and `sock`, our end of its socket. Nothing it started outlives `close`.

    Starting one needs no heavy import of ours, so that its own imports begin at once. `cache` is where its XLA programs
    are kept; for `long_runs` they are optimised.
    """

    def __init__(self, cache: Path | None, limits: Limits, *, long_runs: bool = False) -> None:
        self.killed_for = ""
        self._bystanders = _children()
        self.cache = cache
        self.limits = limits
        self._scratch = tempfile.mkdtemp(prefix="grade-")
        self.sock, theirs = socket.socketpair()
        _adopt_orphans()
        self.process = subprocess.Popen(
            # -I: no PYTHON* variables, no user site, no current folder on the path.
            [sys.executable, "-I", "-c", _BOOT, str(ROOT), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs.fileno()],
            cwd=self._scratch,
            env=_environment(self._scratch, cache, "" if long_runs else QUICK_TO_COMPILE),
            start_new_session=True,
        )
        _workers.add(self.process.pid)
        self._cgroup = cgroup.cap(self.process.pid, limits.processes + THREADS)
        theirs.close()
        self._output = bytearray()
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._drain, args=[self.process.stdout], daemon=True),
            threading.Thread(target=self._watch, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> str:
        """Ends the worker and everything it started. Returns what was printed, cut to 64 kB and made printable."""
        self._done.set()
        self._tree().kill()
        self.sock.close()
        self.process.wait()
        _workers.discard(self.process.pid)
        if self._cgroup:
            cgroup.remove(self._cgroup)
        self._threads[0].join(timeout=2)
        rmtree(self._scratch, ignore_errors=True)
        return printable(bytes(self._output).decode("utf-8", "replace"))

    def _tree(self) -> Tree:
        from grader.processes import Tree  # psutil is imported while the worker does its own imports

        return Tree(self.process.pid, _workers | self._bystanders)

    def _watch(self) -> None:
        """Enforces what no limit of the kernel adds up over a tree of processes."""
        while not self._done.wait(0.1):
            tree = self._tree()
            if len(tree.members()) > self.limits.processes:
                self.killed_for = f"it started more than {self.limits.processes} processes"
            elif tree.uses_more_than(IMPORTS + self.limits.memory):
                self.killed_for = f"it used more than {self.limits.memory >> 20} MiB of memory"
            if self.killed_for:
                tree.kill()
                return

    def _drain(self, pipe: IO[bytes]) -> None:
        while part := os.read(pipe.fileno(), 1 << 16):
            self._output += part[: KEPT_OUTPUT - len(self._output)]


# Processes this one started on purpose; any other child is a submission's orphan.
_workers: set[int] = set()

# Runs before anything of ours can be imported: the channel becomes descriptor 3, and all above it are closed.
_BOOT = f"""
import gc, os, sys
gc.disable()
os.dup2(int(sys.argv[2]), {FD})
os.closerange({FD + 1}, 65536)
sys.path.insert(0, sys.argv[1])
from grader.worker import main
main()
"""


def _environment(scratch: str, cache: Path | None, flags: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    compilation = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return {
        **kept,
        **(compilation if cache else {}),
        "HOME": scratch,
        "JAX_PLATFORMS": "cpu",  # a verdict must not depend on the accelerator of the machine
        "LANG": "C.UTF-8",
        "OPENBLAS_NUM_THREADS": "1",  # else NumPy starts a thread at import, and Landlock binds only its own thread
        "PATH": os.defpath,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TMPDIR": scratch,
        "XLA_FLAGS": flags,
    }


def _adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent ends, so that none is lost sight of."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _children() -> set[int]:
    """The children that this process has now."""
    tasks = Path("/proc/self/task")
    found = " ".join(file.read_text() for file in tasks.glob("*/children")) if tasks.is_dir() else ""
    return {int(pid) for pid in found.split()}


def printable(text: str) -> str:
    """Text of unknown origin with control characters escaped, safe for a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
