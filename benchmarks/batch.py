"""Submissions per minute: `grade batch` compared with what a teacher would run instead. Interleaved in one run, on all
cores.

    python benchmarks/batch.py [ROUNDS] [--smoke]

A class submits problem 07: the reference and every misconception, in files whose code differs, though many trace to the
same program.

batch   One `grade batch` of the whole class into an empty results folder, including startup and summary.
alike   The same, where the files differ in comments only: the same code is graded once.
cold    One `grade problem` per file, one per core at a time, each with an empty cache. Bar: `batch` is at least 3 times as fast.
pytest  One pytest per file, one per core at a time. It imports JAX, calls the submission and its gradient eagerly on the same
        cases, and compares with stored values by allclose, as CS336 and others do. Bar: `batch` is at least 10 times as fast.
otter   `otter run` on a submission that doubles a number, if otter-grader is installed.
"""

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from timing import ROOT, seconds, smoke

from commandline.cores import usable_cores
from grader.course import cases, catalog
from grader.problem import Problem

CLASS = 120  # submissions
SAMPLE = 12  # of them, for the slower programs
GRADE = [sys.executable, "-m", "grader"]


def main() -> None:
    count, sample, rounds = (4, 1, 1) if smoke() else (CLASS, SAMPLE, int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    problem = catalog.find("07")
    source = catalog.solution_path(problem).read_text()
    texts = [source] + [text for idea in catalog.misconceptions(problem) for text in idea.variants(source).values()]
    cores = usable_cores()
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for number in range(count):
            for kind, line in (("class", f"NUMBER = {number}"), ("alike", f"# {number}")):
                path = top / kind / f"learner {number:03}" / f"{problem.name}.py"
                path.parent.mkdir(parents=True)
                path.write_text(f"{texts[number % len(texts)]}\n{line}\n")
        files = sorted((top / "class").rglob("*.py"))
        snapshot = _snapshot(problem, top)
        for number in range(rounds):
            for kind, name in (("class", "batch"), ("alike", "alike")):
                cache = {"GRADE_CACHE": str(top / f"cache {name} {number}")}
                command = [*GRADE, "batch", str(top / kind), "--out", str(top / f"results {name} {number}")]
                rates.setdefault(name, []).append(count / seconds(command, **cache) * 60)

            def cold(index: int, number: int = number) -> None:
                folder = str(top / f"cold {number} {index}")
                _pass_or_fail([*GRADE, "problem", "07", str(files[index])], GRADE_CACHE=folder)

            def pytest(index: int) -> None:
                command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
                           str(ROOT / "benchmarks" / "baselines" / "snapshot_test.py")]  # fmt: skip
                _pass_or_fail(command, SUBMISSION=str(files[index]), SNAPSHOT=str(snapshot))

            rates.setdefault("cold", []).append(_rate(cold, cores, sample))
            rates.setdefault("pytest", []).append(_rate(pytest, cores, sample))
        _print(rates, rounds)
        otter = _otter(top)
    print(f"otter    {60 / otter:8.1f} submissions per minute, one at a time" if otter else "otter    not installed")


def _print(rates: dict[str, list[float]], rounds: int) -> None:
    for name, each in rates.items():
        spread = f"({min(each):.1f} to {max(each):.1f}, {rounds} rounds)"
        print(f"{name:8} {statistics.median(each):8.1f} submissions per minute   {spread}")
    for name, bar in (("cold", 3), ("pytest", 10)):
        ratio = statistics.median(a / b for a, b in zip(rates["batch"], rates[name], strict=True))
        print(f"batch / {name:8} {ratio:6.1f}   bar {bar}: {'met' if ratio >= bar else 'MISSED'}")


def _rate(grade: Callable[[int], None], cores: int, sample: int) -> float:
    """Submissions per minute over a sample of the class, one per core at a time."""
    start = perf_counter()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(grade, range(sample)))
    return sample / (perf_counter() - start) * 60


def _pass_or_fail(command: list[str], **env: str) -> None:
    """Runs a command that exits with 1 on a wrong submission."""
    seconds(["sh", "-c", '"$@" || [ $? -eq 1 ]', "sh", *command], **env)


def _snapshot(problem: Problem, top: Path) -> Path:
    """Stores the expected values of the snapshot test: the cases, and the reference's losses and gradients on them."""
    sys.path.insert(0, str(ROOT / "solutions"))
    from p07_next_token_loss import next_token_loss

    stored: dict[str, np.ndarray] = {}
    drawn = [case for group in problem.cases for case in cases.draw(problem, group, 0)]
    for number, case in enumerate(drawn):
        logits, ids, pad = (case.values[name] for name in ("logits", "token_ids", "pad_id"))

        def loss(logits: jax.Array, ids: object = ids, pad: object = pad) -> jax.Array:
            return next_token_loss(logits, jnp.asarray(ids), pad)

        stored |= {f"logits{number}": logits, f"ids{number}": ids, f"pad{number}": np.int64(pad)}
        stored |= {f"loss{number}": loss(jnp.asarray(logits)), f"gradient{number}": jax.grad(loss)(jnp.asarray(logits))}
    path = top / "snapshot.npz"
    np.savez(path, count=len(drawn), **stored)
    return path


def _otter(top: Path) -> float | None:
    """The seconds that `otter run` takes on a submission that doubles a number. None if it is not installed."""
    if not shutil.which("otter"):
        return None
    folder = top / "otter"
    (folder / "tests").mkdir(parents=True)
    case = {"code": ">>> double(2)\n4"}
    test = {"name": "q1", "points": 1, "suites": [{"cases": [case], "type": "doctest"}]}
    (folder / "tests" / "q1.py").write_text(f"OK_FORMAT = True\ntest = {test!r}\n")
    (folder / "double.py").write_text("def double(x):\n    return 2 * x\n")
    seconds(["sh", "-c", f"cd '{folder}' && zip -qr autograder.zip tests"])
    return seconds(["otter", "run", "-a", str(folder / "autograder.zip"), "-o", str(folder), str(folder / "double.py")])


if __name__ == "__main__":
    main()
