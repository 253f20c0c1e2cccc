"""Watch mode and the studio, from a save to its verdict, against the import of JAX and Flax.

    python benchmarks/watch.py [ROUNDS] [--smoke] [--write]

Each front watches a workspace of references. Each save has a constant that no text before had, so its program is one
that the cache has not seen; every second one also has a misconception. A time ends when the whole verdict is in the log
of progress. The first saves fill the cache with reference outputs and do not count.
"""

import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path

from learner import PLACES, Front, edits
from timing import IMPORT, Run, seconds

from grader.course import catalog
from grader.problem import Problem

BAR = 0.50
FRONTS = {"watch mode": ("watch", "{}"), "the studio": ("web", "--no-browser")}
REST = 2.0  # seconds between two saves, as even a fast learner leaves: the spare workers are ready again


def measure(problem: Problem, arguments: tuple[str, ...], rounds: int) -> dict[str, float]:
    """The median of right saves and of wrong ones, each divided by an import just before."""
    ratios: dict[str, list[float]] = {"right": [], "wrong": []}
    with tempfile.TemporaryDirectory() as folder:
        front = Front(Path(folder), problem, *(word.replace("{}", problem.label) for word in arguments))
        for number, (right, wrong) in enumerate(islice(edits(problem), rounds + 1)):
            for kind, text in (("wrong", wrong), ("right", right)):
                time.sleep(REST)
                floor = seconds(IMPORT)
                elapsed = front.save(text, passes=kind == "right")
                if number:
                    ratios[kind].append(elapsed / floor)
        front.close()
    return {kind: statistics.median(each) for kind, each in ratios.items()}


def main() -> None:
    run = Run()
    rounds = run.rounds(3)
    problems = [catalog.find(str(number)) for number in ([4] if run.smoke else PLACES)]
    for name, arguments in FRONTS.items():
        found = [measure(problem, arguments, rounds) for problem in problems]
        for kind in ("right", "wrong"):
            run.figure(f"{name}, save to verdict / import, {kind}", [each[kind] for each in found], at_most=BAR)
    run.end()


if __name__ == "__main__":
    main()
