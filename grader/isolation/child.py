"""Programs that a command waits for, which end with it, also if it is killed: what they have locked is free at once.

`python -m grader.isolation.child PID MODULE WORD...` runs a module that ends with the process of this id.
"""

import os
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from commandline.errors import CommandError, UsageError
from grader.paths import ROOT

SECONDS = 1800  # for one run; a busy machine may take long
_PAUSE = 0.1  # seconds between two looks


def run(module: str, *words: str, stdin: str = "") -> str:
    """Runs a module with these words and this input, and returns what it prints. Raises UsageError if it refuses them,
    and CommandError if it fails or takes longer."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "grader.isolation.child", str(os.getpid()), module, *words]
    try:
        done = subprocess.run(
            command, env=env, input=stdin, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"The harness took longer than {SECONDS} s. Try again on an idle machine.") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it stopped without a word"])[-1].removeprefix("harness: ")
        if done.returncode == UsageError.exit_code:
            raise UsageError(reason)
        raise CommandError(f"The harness did not finish a run: {reason}")
    return done.stdout


def end_with(parent: int, end: Callable[[], None] = lambda: os._exit(3)) -> None:
    """Calls `end` when the parent of this process, which has this process id, is gone; by default, exits at once."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        end()

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    module = sys.argv[2]
    sys.argv[1:3] = []
    runpy.run_module(module, run_name="__main__", alter_sys=True)
