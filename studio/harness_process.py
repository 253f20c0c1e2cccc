"""Starts `harness` as a process of its own: it loads JAX, and perhaps a learner's code, neither of which the studio
does."""

import contextlib
import os
import signal
import subprocess
import sys
from typing import IO, Any

from grader.paths import ROOT

IS_INSTALLED = (ROOT / "harness").is_dir()  # a learners' bundle may lack it
_PATIENCE = 60.0  # seconds for the step that is being compiled or computed, and for a checkpoint


def start(
    *arguments: str, stdin: int | IO[Any] = subprocess.DEVNULL, stderr: int = subprocess.STDOUT
) -> "subprocess.Popen[str]":
    """Starts a command of `harness`. Ctrl-C in the terminal does not reach it; `stop` does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "harness", *arguments],
        stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True, encoding="utf-8", errors="replace",
        env=environment, start_new_session=True,
    )  # fmt: skip


def stop(process: "subprocess.Popen[str]") -> None:
    """Asks a process to save a checkpoint and to end. Asked twice, it would end without one."""
    process.terminate()


def end(process: "subprocess.Popen[str]") -> bool:
    """Waits until a process has ended that was asked to. Kills it if that takes long. Returns whether it ended in
    time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
        return True
    kill(process)
    return False


def kill(process: "subprocess.Popen[str]") -> None:
    """Ends a process, and on POSIX systems also the processes that it started."""
    if process.poll() is None:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
