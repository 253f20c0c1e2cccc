"""Submissions a minute: `grade batch` beside what a teacher would otherwise run. All in one run, interleaved, on all cores.

    python benchmarks/batch.py [ROUNDS]

Problem 07, handed in by a class: right files in several styles and every misconception, each file a text of its own.

batch   one `grade batch` of the whole class, from an empty results folder, with its start and its summary
cold    one `grade problem` for each file, two side by side, each with an empty cache. Bar: batch at least 3 times.
pytest  one pytest for each file, two side by side: JAX imported, an eager call and its gradient on the same cases, allclose with
        stored values, as CS336 and others do it. Bar: batch at least 10 times.
otter   `otter run` on one notebook-free submission that doubles a number, where otter-grader is installed
"""

import os
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
from timing import ROOT, seconds

from grader.course import cases, catalog

CLASS, SAMPLE = 120, 12
GRADE = [sys.executable, "-m", "grader"]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    problem = catalog.find("07")
    source = catalog.solution_path(problem).read_text()
    texts = [source] + [text for idea in catalog.misconceptions(problem) for text in idea.variants(source).values()]
    cores = len(os.sched_getaffinity(0))
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for number in range(CLASS):
            path = top / "class" / f"learner {number:03}" / f"{problem.name}.py"
            path.parent.mkdir(parents=True)
            path.write_text(f"# {number}\n{texts[number % len(texts)]}")
        files = sorted((top / "class").rglob("*.py"))
        right = top / "right.py"
        right.write_text(source)
        snapshot = _snapshot(problem, top)
        for number in range(rounds):
            cache = {"GRADE_CACHE": str(top / f"cache {number}")}
            command = [*GRADE, "batch", str(top / "class"), "--out", str(top / f"results {number}")]
            figures.setdefault("batch", []).append(CLASS / seconds(command, **cache) * 60)

            def cold(place: int, number: int = number) -> None:
                folder = str(top / f"cold {number} {place}")
                _any_code([*GRADE, "problem", "07", str(files[place])], GRADE_CACHE=folder)

            def pytest(place: int) -> None:
                command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
                           str(ROOT / "benchmarks" / "baselines" / "snapshot_test.py")]  # fmt: skip
                _any_code(command, SUBMISSION=str(files[place]), SNAPSHOT=str(snapshot))

            figures.setdefault("cold", []).append(_rate(cold, cores))
            figures.setdefault("pytest", []).append(_rate(pytest, cores))
        _print(figures, rounds)
        otter = _otter(top)
    print(f"otter    {60 / otter:8.1f} submissions a minute, one at a time" if otter else "otter    not installed")


def _print(figures: dict[str, list[float]], rounds: int) -> None:
    for name, rates in figures.items():
        spread = f"({min(rates):.1f} to {max(rates):.1f}, {rounds} rounds)"
        print(f"{name:8} {statistics.median(rates):8.1f} submissions a minute   {spread}")
    for name, bar in (("cold", 3), ("pytest", 10)):
        ratio = statistics.median(a / b for a, b in zip(figures["batch"], figures[name], strict=True))
        print(f"batch / {name:8} {ratio:6.1f}   bar {bar}: {'met' if ratio >= bar else 'MISSED'}")


def _rate(grade: Callable[[int], None], cores: int) -> float:
    """Submissions a minute over a sample of the class, as many side by side as there are cores."""
    start = perf_counter()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(grade, range(SAMPLE)))
    return SAMPLE / (perf_counter() - start) * 60


def _any_code(command: list[str], **env: str) -> None:
    """Runs it; that a wrong submission is wrong is no failure."""
    seconds(["sh", "-c", '"$@" || [ $? -eq 1 ]', "sh", *command], **env)


def _snapshot(problem: catalog.Problem, top: Path) -> Path:
    """What the snapshot test compares with: the same cases, and the reference's losses and gradients."""
    sys.path.insert(0, str(catalog.SOLUTIONS))
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
    """Seconds of `otter run` on a submission that doubles a number."""
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
