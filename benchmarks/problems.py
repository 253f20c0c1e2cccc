"""`grade problem NN` on the reference of each problem, with an empty cache and with a warm one.

    python benchmarks/problems.py [NN ...] [--smoke] [--write]

The bar is for an idle machine of two cores. Each is also divided by the import of JAX and Flax, which every verdict
needs.
"""

import statistics
import tempfile

from timing import GRADE, IMPORT, Run, seconds

from grader.course import catalog

BAR = 6.0  # seconds
EXEMPT = {16, 26, 27, 32}  # they save checkpoints, read files or train


def main() -> None:
    run = Run()
    run.section = "problems"
    problems = [catalog.find(word) for word in run.words or ["07"] * run.smoke] or catalog.problems()
    floor = min(seconds(IMPORT) for _ in range(3))
    ratios = []
    for problem in problems:
        command = [*GRADE, "problem", problem.label, f"solutions/{problem.name}.py"]
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (seconds(command, GRADE_CACHE=cache) for _ in range(2))
        ratios.append(cold / floor)
        run.figure(f"{problem.label}, cold", cold, "s", at_most=None if problem.number in EXEMPT else BAR)
        run.figure(f"{problem.label}, warm", warm, "s")
    run.figure("cold / import, over the problems", statistics.median(ratios))
    run.end()


if __name__ == "__main__":
    main()
