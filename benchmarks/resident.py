"""`grade problem` from the shell with the resident judge that the first grading leaves behind.

    python benchmarks/resident.py [ROUNDS] [--smoke] [--write]

Each round grades a file of problem 04 after an edit, as a learner does: the constant is one that no grading has seen.
Whole commands are timed: the first one, which leaves a judge behind; the same with GRADE_RESIDENT=0, alone; and a
second one, right and wrong, beside the import of JAX and Flax just before. benchmarks/reliability.py has what the judge
holds after many gradings.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from learner import edits, write_sources
from timing import GRADE, IMPORT, Run, seconds

from grader.course import catalog
from grader.resident import client, connection

BARS = {"second, right / import": 0.70, "second, wrong / import": 1.2, "first / alone": 1.05}
REST = 6.0  # seconds between two gradings, in which a new judge compiles in its spare workers


def judges() -> list[psutil.Process]:
    """The judges that were left behind in the runtime folder of this program."""
    return [psutil.Process(each.process) for _, each in connection.connect_to_all() if each.is_left_behind()]


def end_judges() -> None:
    """Ends every judge, as `grade resident stop` does."""
    for judge in judges():
        judge.terminate()
        judge.wait(60)


@contextmanager
def own_runtime() -> Iterator[Path]:
    """A folder for a workspace, a cache and sockets, so that no other judge is met. Commands may leave one behind."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        changed = {"XDG_RUNTIME_DIR": folder, "GRADE_CACHE": f"{folder}/cache", client.VARIABLE: "1", "CI": ""}
        before = dict(os.environ)
        os.environ.update(changed)
        write_sources({}, Path(folder, "attempts"))
        Path(folder, "attempts", ".progress.jsonl").touch()
        try:
            yield Path(folder)
        finally:
            end_judges()
            os.environ.clear()
            os.environ.update(before)


def wait_for_judge() -> None:
    """Waits until a judge has its spare workers, and as long as a learner edits."""
    deadline = time.monotonic() + 120
    while not (found := judges()) or len(found[0].children(recursive=True)) <= 2:
        if time.monotonic() > deadline:
            sys.exit("no judge was left behind")
        time.sleep(0.2)
    time.sleep(REST)


def main() -> None:
    run = Run()
    problem = catalog.find("04")
    ratios: dict[str, list[float]] = {}
    with own_runtime() as folder:
        texts = edits(problem)

        def grade(resident: str = "1", *, wrong: bool = False) -> float:
            (folder / "attempts" / f"{problem.name}.py").write_text(next(texts)[wrong])
            command = [*GRADE, "problem", problem.label]
            return seconds(command, cwd=folder, codes=(int(wrong),), **{client.VARIABLE: resident})

        grade("0")  # fills the cache with reference outputs
        for _ in range(run.rounds(9)):
            alone = grade("0")
            ratios.setdefault("alone / import", []).append(alone / seconds(IMPORT))
            ratios.setdefault("first / alone", []).append(grade() / alone)
            for wrong, name in enumerate(("second, right / import", "second, wrong / import")):
                wait_for_judge()
                floor = seconds(IMPORT)
                ratios.setdefault(name, []).append(grade(wrong=bool(wrong)) / floor)
            end_judges()
    for name, each in ratios.items():
        run.figure(name, each, at_most=BARS.get(name))
    run.end()


if __name__ == "__main__":
    main()
