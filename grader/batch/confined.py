"""Runs work on a learner's files in a process of its own, confined and limited: its failure is that learner's line.

The parsers of archives, notebooks and Python files were not made for files that are made against them: these take
hours, fill the memory, or raise errors that nobody expects. The process that calls `each` forks, so it has only one
thread and no secrets.
"""

import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from commandline.errors import CommandError
from grader.isolation import confinement, landlock, seccomp
from grader.isolation.libc import DEATH_SIGNAL, prctl

try:
    import resource
except ImportError:  # Windows has neither limits nor forks: work is done in this process
    resource = None  # type: ignore[assignment]

COMPUTING = 5  # seconds; the files of an honest learner take a tenth of one
WAITING = 40 * COMPUTING  # seconds, on a machine that is busy
MEMORY = 512 << 20  # bytes, above what this process has
OUTPUT = 128 << 20  # bytes: all problems of a course, each of the largest size, have half as many
_NESTED = "are nested too deeply to be read"
_MEMORY = f"take more than {MEMORY >> 20} MiB of memory to read"


@dataclass(frozen=True)
class Result:
    """The result of one piece of work, or the reason why there is none.

    Attributes:
        value: The returned JSON values.
        failed: The rest of a sentence that begins with "its files".
        fault: The traceback of an internal error.
        error: The type of that error.
        refused: The message of a CommandError, which concerns the class.
    """

    value: Any = None
    failed: str = ""
    fault: str = ""
    error: str = ""
    refused: str = ""


@dataclass
class _Running:
    key: str
    process: int
    end: float
    received: list[bytes] = field(default_factory=list)
    size: int = 0
    failed: str = ""


def each(
    works: Iterable[tuple[str, Callable[[], Any]]], readable: Sequence[Path], at_once: int, computing: int | None = None
) -> Iterator[tuple[str, Result]]:
    """Yields the result of each work by its key, as they end. Work can read only what is below `readable`, and Python's
    own files.

    It may take `computing` seconds of a processor, COMPUTING unless given.
    """
    seconds = computing or COMPUTING
    if not hasattr(os, "fork"):
        yield from ((key, _run(work)) for key, work in works)
        return
    waiting, running = iter(works), dict[int, _Running]()
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(running) < at_once and (item := next(waiting, None)):
                    key, work = item
                    pipe, process = _forked(work, readable, seconds)
                    running[pipe] = _Running(key, process, monotonic() + WAITING)
                    selector.register(pipe, selectors.EVENT_READ)
                if not running:
                    return
                for ready, _ in selector.select(timeout=1.0):
                    pipe = ready.fd
                    if _receive(pipe, running[pipe]):
                        continue
                    selector.unregister(pipe)
                    yield running[pipe].key, _ended(pipe, running.pop(pipe), seconds)
                for one in running.values():
                    if monotonic() > one.end and not one.failed:
                        one.failed = f"could not be read within {WAITING} s"
                        os.kill(one.process, signal.SIGKILL)
        finally:
            for pipe, one in running.items():
                os.kill(one.process, signal.SIGKILL)
                os.waitpid(one.process, 0)
                os.close(pipe)


def _forked(work: Callable[[], Any], readable: Sequence[Path], seconds: int) -> tuple[int, int]:
    """Starts work in a process; returns the pipe that its result comes from, and the process."""
    receiving, sending = os.pipe()
    process = os.fork()
    if process:
        os.close(sending)
        return receiving, process
    code = 1
    try:
        os.close(receiving)
        _confine(readable, seconds)
        with open(sending, "wb", buffering=0) as out:
            data = memoryview(json.dumps(vars(_run(work))).encode("ascii"))
            while data:
                data = data[out.write(data) :]
        code = 0
    finally:
        os._exit(code)


def _run(work: Callable[[], Any]) -> Result:
    try:
        return Result(work())
    except MemoryError:
        return Result(failed=_MEMORY)
    except RecursionError:
        return Result(failed=_NESTED)
    except CommandError as error:
        return Result(refused=str(error))
    except Exception as error:
        return Result(fault="".join(traceback.format_exception(error)), error=type(error).__name__)


def _confine(readable: Sequence[Path], seconds: int) -> None:
    """Removes every right that reading files does not need, as far as this kernel can."""
    for limit, value in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (value, value))
    if sys.platform != "linux":
        return
    in_use = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (in_use + MEMORY, in_use + MEMORY))
    prctl(DEATH_SIGNAL, signal.SIGKILL)
    if landlock.version():
        landlock.restrict([*readable, *confinement.readable(())], [])
    if seccomp.available():
        seccomp.restrict()


def _receive(pipe: int, one: _Running) -> bool:
    """Receives from a process. Returns whether there may be more to come."""
    part = os.read(pipe, 1 << 20)
    one.size += len(part)
    if one.size > OUTPUT and not one.failed:
        one.failed = f"have more than {OUTPUT >> 20} MiB of text"
        os.kill(one.process, signal.SIGKILL)
    if not one.failed:
        one.received.append(part)
    return bool(part)


def _ended(pipe: int, one: _Running, seconds: int) -> Result:
    os.close(pipe)
    _, status = os.waitpid(one.process, 0)
    if one.failed:
        return Result(failed=one.failed)
    if os.WIFSIGNALED(status):
        by_limit = os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
        why = f"take more than {seconds} s of computing to read" if by_limit else "end the process that reads them"
        return Result(failed=why)
    try:
        return Result(**json.loads(b"".join(one.received)))
    except (ValueError, TypeError):
        return Result(failed=_MEMORY)  # there was not enough of it to say so
