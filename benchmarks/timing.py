"""What the benchmarks share: commands and programs that are timed in turn, and the figures of a run with their bars."""

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path(__file__).with_name("figures.md")
GRADE = [sys.executable, "-P", "-m", "grader"]
IMPORT = [sys.executable, "-c", "import jax, flax.nnx"]
Times = dict[str, list[float]]  # seconds by name, one for each round


class Run:
    """The command line of a benchmark, and the figures that it prints.

    With --smoke, a benchmark shows in a minute or two that it works, and its figures mean nothing. With --write, `end`
    replaces the benchmark's section in figures.md.
    """

    def __init__(self) -> None:
        self.words = [word for word in sys.argv[1:] if not word.startswith("--")]
        self.smoke = "--smoke" in sys.argv
        self.section = " ".join([Path(sys.argv[0]).stem, *(word for word in self.words if not word.isdecimal())])
        self.device = ""
        self._rows: list[str] = []
        self._missed = False

    def rounds(self, usual: int) -> int:
        """How often to measure: the number on the command line, else the usual one. With --smoke, once."""
        return 1 if self.smoke else next((int(word) for word in self.words if word.isdecimal()), usual)

    def figure(
        self, name: str, values: float | Sequence[float], unit: str = "", *,
        at_most: float | None = None, at_least: float | None = None,
    ) -> None:  # fmt: skip
        """Prints the median of the values, their range, and whether the median keeps to the bar."""
        each = [values] if isinstance(values, int | float) else values
        middle, spread, bar = statistics.median(each), "", ""
        if len(each) > 1:
            spread = f"{_short(min(each))} to {_short(max(each))}"
        for word, limit, sign in (("at most", at_most, 1), ("at least", at_least, -1)):
            if limit is not None:
                met = sign * middle <= sign * limit
                bar = f"{word} {_short(limit)}: {'met' if met else 'MISSED'}"
                self._missed |= not met
        print(row := f"| {name} | {_short(middle)}{unit and ' ' + unit} | {spread} | {bar} |", flush=True)
        self._rows.append(row)

    def ratio(self, times: Times, over: str, under: str, **bar: float) -> None:
        """Prints the ratio of two times, as the median over the rounds."""
        self.figure(f"{over} / {under}", [a / b for a, b in zip(times[over], times[under], strict=True)], **bar)

    def end(self) -> None:
        """Writes the section if asked to. Exits with 1 if a bar was missed."""
        if "--write" in sys.argv and not self.smoke:
            table = "\n".join(["| figure | median | range | bar |", "|---|---|---|---|", *self._rows])
            head, *others = re.split(r"(?m)^(?=## )", PAGE.read_text())
            sections = {text.splitlines()[0].removeprefix("## "): text for text in others}
            sections[self.section] = f"## {self.section}\n\n{self.circumstances()}\n\n{table}\n\n"
            once = sections.pop("Measured once")
            PAGE.write_text(head + "".join(sections[name] for name in sorted(sections)) + once)
        sys.exit(1 if self._missed and not self.smoke else 0)

    def circumstances(self) -> str:
        """The date, the commit, the machine and the versions, in two lines."""
        cpuinfo = Path("/proc/cpuinfo")
        named = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
        machine = f"{os.cpu_count()} cores of {named[1] if named else platform.processor()}"
        describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        python = f"Python {platform.python_version()}, JAX {version('jax')}, Flax {version('flax')}"
        return f"{datetime.now(UTC).date()}, commit {commit}, {self.device or machine},\n{python}."


def _short(value: float) -> str:
    """A number with three digits, or all of a whole part that has more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def output(command: list[str], *, codes: tuple[int, ...] = (0,), cwd: Path = ROOT, **env: str) -> str:
    """What a command prints. Ends the benchmark with its output if its exit code is another one."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)[:200]} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def seconds(command: list[str], **options: Any) -> float:
    """The wall time of a whole process, in seconds. The options are those of `output`."""
    start = time.perf_counter()
    output(command, **options)
    return time.perf_counter() - start


def in_turn(commands: Mapping[str, Callable[[], float]], rounds: int) -> Times:
    """The times of commands that run one after the other, after a round that fills the disk's cache."""
    times: Times = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, timed in commands.items():
            elapsed = timed()
            if number:
                times[name].append(elapsed)
    return times


def alternately(programs: Mapping[str, list[str]], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """The results of Python programs that take turns, so that all run under the same load.

    A program prints one line of JSON for each line on its stdin. The first result of each comes after compiling.
    """
    children = {
        name: subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})
        for name, arguments in programs.items()
    }  # fmt: skip
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
    for _ in range(rounds + 1):
        for name, child in children.items():
            child.stdin.write("next\n")
            child.stdin.flush()
            results[name].append(json.loads(child.stdout.readline()))
    for child in children.values():
        child.stdin.close()
        child.wait()
    return results


def answers(result: Callable[[], Mapping[str, Any]]) -> None:
    """Prints a result as JSON for each line on stdin: the other side of `alternately`."""
    for _ in sys.stdin:
        print(json.dumps(result()), flush=True)
