"""Times whole commands, and parts of programs that run alternately, for the other benchmarks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def smoke() -> bool:
    """Takes `--smoke` out of the arguments. With it, a benchmark shows in seconds that it works, and its figures mean
    nothing."""
    given = "--smoke" in sys.argv
    sys.argv[:] = [word for word in sys.argv if word != "--smoke"]
    return given


def as_options(*settings: str) -> list[str]:
    """The options that give `harness` these settings, KEY=VALUE."""
    return [word for setting in settings for word in ("--set", setting)]


def seconds(command: list[str], **env: str) -> float:
    """The wall time of a whole process, in seconds. Exits with its output if it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return elapsed


def alternately(programs: Mapping[str, list[str]], rounds: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Asks each Python program in turn for a result, `rounds` times, so that all run under the same load.

    A program prints one line of JSON for each line on its stdin. Yields the round, the program's name and its result.
    """
    children = {
        name: subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})
        for name, arguments in programs.items()
    }  # fmt: skip
    for number in range(rounds):
        for name, child in children.items():
            child.stdin.write("next\n")
            child.stdin.flush()
            yield number, name, json.loads(child.stdout.readline())
    for child in children.values():
        child.stdin.close()
        child.wait()
