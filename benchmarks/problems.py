"""Times `grade problem NN` on the reference of each problem, cold (empty cache) and warm.

    python benchmarks/problems.py [NN ...] [--smoke]

Bar: cold under 6 s on an idle 2-core machine for every problem but 16, 26, 27 and 32. For comparison, each run also
times a bare `import jax, flax.nnx`, which every verdict needs. `problems.txt` is the output of one run.
"""

import sys
import tempfile

from timing import seconds, smoke

from grader.course import catalog

BAR = 6.0  # seconds
EXEMPT = {16, 26, 27, 32}


def main() -> None:
    only_smoke = smoke()
    sys.argv += ["07"] * only_smoke
    chosen = [catalog.find(word) for word in sys.argv[1:]] or catalog.problems()
    bare = min(seconds([sys.executable, "-c", "import jax, flax.nnx"]) for _ in range(1 if only_smoke else 3))
    print(f"import jax, flax.nnx: {bare:.2f} s\n\n{'problem':30}{'cold':>8}{'warm':>8}{'cold / import':>16}")
    too_slow = 0
    for problem in chosen:
        command = [sys.executable, "-m", "grader", "problem", problem.label, f"solutions/{problem.name}.py"]
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(command, GRADE_CACHE=cache)
            warm = seconds(command, GRADE_CACHE=cache)
        mark = "" if cold < BAR else "  (no bar)" if problem.number in EXEMPT else "  TOO SLOW"
        too_slow += mark == "  TOO SLOW"
        print(f"{problem.name:30}{cold:8.2f}{warm:8.2f}{cold / bare:16.1f}{mark}", flush=True)
    sys.exit(1 if too_slow and not only_smoke else 0)


if __name__ == "__main__":
    main()
