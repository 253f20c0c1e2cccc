"""`grade batch` on a class that submits problem 07, on all cores, against the import of JAX and Flax.

    python benchmarks/batch.py [ROUNDS] [--smoke] [--write]

The class submits the reference and every misconception, in files whose code differs, though many trace to the same
program. Each round begins with an empty results folder and an empty cache, and includes startup and summary. The bar
for files a minute is for two cores.
"""

import tempfile
from pathlib import Path

from timing import GRADE, IMPORT, Run, Times, seconds

from grader.course import catalog
from grader.problem import Problem


def write_class(problem: Problem, folder: Path, count: int) -> list[Path]:
    """Writes a file for each learner."""
    source = catalog.solution_path(problem).read_text()
    texts = [source] + [text for idea in catalog.misconceptions(problem) for text in idea.variants(source).values()]
    files = [folder / f"learner {number:04}" / f"{problem.name}.py" for number in range(count)]
    for number, path in enumerate(files):
        path.parent.mkdir(parents=True)
        path.write_text(f"{texts[number % len(texts)]}\nNUMBER = {number}\n")
    return files


def main() -> None:
    run = Run()
    count = 4 if run.smoke else 120
    times: Times = {"file": [], "import": []}
    with tempfile.TemporaryDirectory() as folder:
        write_class(catalog.find("07"), Path(folder, "class"), count)
        for number in range(run.rounds(3)):
            command = [*GRADE, "batch", f"{folder}/class", "--out", f"{folder}/results {number}"]
            times["import"].append(seconds(IMPORT))
            times["file"].append(seconds(command, GRADE_CACHE=f"{folder}/cache {number}") / count)
    run.figure("files a minute", [60 / each for each in times["file"]], at_least=400)
    run.ratio(times, "file", "import")
    run.end()


if __name__ == "__main__":
    main()
