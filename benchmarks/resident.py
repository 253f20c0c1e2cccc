"""Times `grade problem` from the shell with the resident judge that the first grading leaves behind. All times are of
one run.

    python benchmarks/resident.py [ROUNDS] [--smoke]
    python benchmarks/resident.py kill [TIMES]

Each round grades a file of problem 04 after an edit, as a learner does: the constant is one that no grading has seen.
Whole commands are timed, and a second grading stands beside the import of JAX and Flax just before.

    first      no judge is there, and the command leaves one behind
    alone      the same with GRADE_RESIDENT=0
    resident   the judge is there

Bars: `resident` is at most 0.70 of the import, `first` at most 1.05 of `alone`, both as the median of the ratios of a
round.

`kill` kills it with SIGKILL in the middle of gradings, 20 unless another number is given: each command must still give
its verdict. Both exit with 1 if it is not so. `benchmarks/reliability.py` has what it holds after many gradings.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from timing import ROOT, smoke

from grader.course import catalog
from grader.resident import client, connection

BARS = {"resident": 0.70, "first": 1.05}
PROBLEM = catalog.find("04")
RIGHT = catalog.reference_sources(PROBLEM)[PROBLEM.name]
BOOT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from grader.__main__ import main; main()"
IMPORT = [sys.executable, "-c", "import jax, flax.nnx"]
REST = 4.0  # seconds between two gradings, as even a fast learner leaves: the judge is ready again
PLACE = "centered = x - mean"


class Edits:
    """A workspace whose file gets a new text before each grading."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        (folder / "attempts").mkdir()
        (folder / "attempts" / ".progress.jsonl").touch()

    def text(self) -> str:
        """The reference with a constant that no text before had."""
        self._count += 1
        return RIGHT.replace(PLACE, f"centered = (x - mean) * {1 + self._count * 2**-22!r}")

    def grade(self, resident: str = "1") -> float:
        """The seconds of a whole command, which must pass."""
        (self._folder / "attempts" / f"{PROBLEM.name}.py").write_text(self.text())
        return seconds([sys.executable, "-c", BOOT, "problem", PROBLEM.label], self._folder, resident)


def seconds(command: list[str], folder: Path, resident: str = "0") -> float:
    """The wall time of a command. Exits with its output if it fails."""
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, client.VARIABLE: resident}, capture_output=True, text=True, check=False
    )
    elapsed = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return elapsed


def judges() -> list[psutil.Process]:
    """The judges that were left behind in the runtime folder of this program."""
    return [psutil.Process(each.process) for _, each in connection.connect_to_all() if each.is_left_behind()]


def wait_for_judge() -> psutil.Process:
    """A judge that is ready: it has its spare workers, and nothing below it computes."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (found := judges()) and len(found[0].children(recursive=True)) > 2 and spent(found[0]) < 0.05:
            return found[0]
        time.sleep(0.2)
    sys.exit("no judge was left behind")


def spent(judge: psutil.Process) -> float:
    """The seconds that a judge and all below it compute in half a second."""

    def total() -> float:
        times = [process.cpu_times() for process in (judge, *judge.children(recursive=True))]
        return sum(each.user + each.system for each in times)

    with suppress(psutil.Error):
        before = total()
        time.sleep(0.5)
        return total() - before
    return 1.0


def end_judges() -> None:
    """Ends every judge, as `grade resident stop` does."""
    for judge in judges():
        judge.terminate()
        judge.wait(60)


def compare(edits: Edits, rounds: int) -> bool:
    """Prints the medians. Returns whether they keep to the bars."""
    ratios: dict[str, list[float]] = {"first": [], "resident": [], "alone": []}
    folder = ROOT
    edits.grade("0")  # fills the cache with reference outputs
    for number in range(rounds):
        end_judges()
        pairs = [("first", "1"), ("alone", "0")]
        times = {}
        for name, resident in pairs if number % 2 else pairs[::-1]:
            times[name] = edits.grade(resident)
            if resident == "1":
                wait_for_judge()
                time.sleep(REST)
                floor = seconds(IMPORT, folder)
                ratios["resident"].append(edits.grade() / floor)
                end_judges()
        ratios["first"].append(times["first"] / times["alone"])
        ratios["alone"].append(times["alone"] / floor)
        print("  ".join(f"{name} {each[-1]:.2f}" for name, each in ratios.items()), flush=True)
    result = {name: statistics.median(each) for name, each in ratios.items()}
    print(f"second grading / import: {result['resident']:.2f} (bar {BARS['resident']:.2f})")
    print(f"first grading / grading alone: {result['first']:.2f} (bar {BARS['first']:.2f})")
    print(f"grading alone / import: {result['alone']:.2f}")
    return all(result[name] <= bar for name, bar in BARS.items())


def kill(edits: Edits, times: int) -> None:
    """Kills a judge in the middle of a grading, again and again. Each command must give its verdict."""
    edits.grade()
    killed = 0
    while killed < times:
        judge = wait_for_judge()
        before = gradings_of()
        (edits._folder / "attempts" / f"{PROBLEM.name}.py").write_text(edits.text())
        command = [sys.executable, "-c", BOOT, "problem", PROBLEM.label]
        running = subprocess.Popen(
            command, cwd=edits._folder, env={**os.environ, client.VARIABLE: "1"}, stdout=subprocess.PIPE, text=True
        )
        while running.poll() is None and gradings_of() == (before[0], False):
            time.sleep(0.01)
        was_grading = running.poll() is None and gradings_of() == (before[0], True)
        os.kill(judge.pid, signal.SIGKILL)
        out, _ = running.communicate()
        if running.returncode or "PASS" not in out:
            sys.exit(f"no verdict after the judge was killed: {running.returncode}\n{out}")
        killed += was_grading
        print(f"killed {'in the middle of a grading' if was_grading else 'too late'}: PASS", flush=True)


def gradings_of() -> tuple[int, bool]:
    """How many gradings the judge has made, and whether it makes one now."""
    for _, each in connection.connect_to_all():
        with suppress(connection.GoneError, KeyError):
            each.send(wants="state")
            state = each.receive(5)
            return state["gradings"], state["idle"] == 0
    return -1, False


@contextmanager
def runtime() -> Iterator[Edits]:
    """A workspace, with a folder for sockets of its own, so that no other judge is met."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.environ.pop("CI", None)
        os.environ.pop(client.VARIABLE, None)
        try:
            yield Edits(Path(folder))
        finally:
            end_judges()


def main() -> None:
    only_smoke = smoke()
    words = sys.argv[1:]
    with runtime() as edits:
        if words[:1] == ["kill"]:
            kill(edits, int(words[1]) if len(words) > 1 else 20)
        else:
            met = compare(edits, 1 if only_smoke else int(words[0]) if words else 9)
            sys.exit(not met and not only_smoke)


if __name__ == "__main__":
    main()
