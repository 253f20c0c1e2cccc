"""`grade batch` on a class, against what a teacher would run instead. Both are interleaved in one run, on all cores.

    python benchmarks/batch.py [ROUNDS] [--smoke] [--write]

A class submits problem 07: the reference and every misconception, in files whose code differs, though many trace to the
same program. `grade batch` writes into an empty results folder with an empty cache, including startup and summary.
pytest runs once for each file, one for each core at a time: it imports JAX, calls the submission and its gradient
eagerly on the same cases, and compares with stored values by allclose, as CS336 and others do. The bar for submissions
per minute is for two cores.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from timing import GRADE, ROOT, Run, output, seconds

from commandline.cores import usable_cores
from grader.course import cases, catalog
from grader.problem import Problem

CLASS, SAMPLE = 120, 12  # submissions, and those of them that pytest grades
TEST = ROOT / "benchmarks" / "baselines" / "snapshot_test.py"


def write_class(problem: Problem, folder: Path, count: int) -> list[Path]:
    """Writes a file for each learner."""
    source = catalog.solution_path(problem).read_text()
    texts = [source] + [text for idea in catalog.misconceptions(problem) for text in idea.variants(source).values()]
    files = [folder / f"learner {number:04}" / f"{problem.name}.py" for number in range(count)]
    for number, path in enumerate(files):
        path.parent.mkdir(parents=True)
        path.write_text(f"{texts[number % len(texts)]}\nNUMBER = {number}\n")
    return files


def write_snapshot(problem: Problem, path: Path) -> None:
    """Stores the cases, and the reference's losses and gradients on them."""
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
    np.savez(path, count=len(drawn), **stored)


def main() -> None:
    run = Run()
    count, sample = (4, 1) if run.smoke else (CLASS, SAMPLE)
    problem, cores = catalog.find("07"), usable_cores()
    rates: dict[str, list[float]] = {"grade batch": [], "pytest": []}
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        files = write_class(problem, top / "class", count)
        write_snapshot(problem, top / "snapshot.npz")

        def pytest(file: Path) -> None:
            command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(TEST)]
            output(command, codes=(0, 1), SUBMISSION=str(file), SNAPSHOT=str(top / "snapshot.npz"))

        for number in range(run.rounds(3)):
            command = [*GRADE, "batch", str(top / "class"), "--out", str(top / f"results {number}")]
            rates["grade batch"].append(60 * count / seconds(command, GRADE_CACHE=str(top / f"cache {number}")))
            start = perf_counter()
            with ThreadPoolExecutor(cores) as pool:
                list(pool.map(pytest, files[:sample]))
            rates["pytest"].append(60 * sample / (perf_counter() - start))
    run.figure("grade batch", rates["grade batch"], "files a minute", at_least=400)
    run.figure("pytest", rates["pytest"], "files a minute")
    run.ratio(rates, "grade batch", "pytest", at_least=10)
    run.end()


if __name__ == "__main__":
    main()
