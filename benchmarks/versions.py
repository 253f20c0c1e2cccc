"""Cold verdicts of two environments, such as one with JAX 0.10 and one with JAX 0.11, in one interleaved run.

    python benchmarks/versions.py OLD/bin/python NEW/bin/python [NN ...]
    python benchmarks/versions.py --smoke

Each grades the reference of each problem with an empty cache, and imports JAX and Flax for comparison, which every
verdict needs. Bar: the median of NEW's verdict / import is at most 1.1 times OLD's.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

from timing import seconds, smoke

from grader.course import catalog

BAR = 1.1
IMPORT = "import jax, flax.nnx"
VERSIONS = """
import importlib.metadata, json, platform
print(json.dumps({"Python": platform.python_version(), **{name: importlib.metadata.version(name) for name in ("jax", "flax")}}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="the Python of one environment")
    parser.add_argument("new", help="the Python of the other")
    parser.add_argument("problem", nargs="*", help="the numbers of problems; all without any")
    if smoke():
        sys.argv[1:] = [sys.executable, sys.executable, "07"]
    given = parser.parse_args()
    pythons = {"old": given.old, "new": given.new}
    for name, python in pythons.items():
        versions = json.loads(
            subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout
        )
        print(f"{name}: " + ", ".join(f"{package} {version}" for package, version in versions.items()))
    print(f"\n{'':30}{'old':>16}{'new':>16}{'new / old':>12}\n{'':30}{'cold   / import':>16}{'cold   / import':>16}")
    ratios = []
    for problem in [catalog.find(word) for word in given.problem] or catalog.problems():
        relative, row = {}, f"{problem.name:30}"
        for name, python in pythons.items():
            bare = min(seconds([python, "-c", IMPORT]) for _ in range(2))
            with tempfile.TemporaryDirectory() as cache:
                command = [python, "-m", "grader", "problem", problem.label, f"solutions/{problem.name}.py"]
                cold = seconds(command, GRADE_CACHE=cache)
            relative[name] = cold / bare
            row += f"{cold:8.2f}{relative[name]:8.1f}"
        ratios.append(relative["new"] / relative["old"])
        print(f"{row}{ratios[-1]:12.2f}", flush=True)
    middle = statistics.median(ratios)
    print(
        f"\nmedian: {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})   bar {BAR}: "
        f"{'met' if middle <= BAR else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
