"""How long a verdict takes, beside what a person would otherwise run. All figures come from one interleaved run.

    python benchmarks/verdict_latency.py [ROUNDS]

cold    `grade problem 06`, nothing cached, against a bare script that imports JAX and calls the same submission eagerly on the
        same cases: what it returns, and its gradient, which is what the checks look at. Bar: at most 0.35.
warm    the same with warm caches, against `import jax, flax.nnx` and one jitted call. Bar: at most 1.3.
list    `grade list`, in seconds, against `python -c pass`. Bar: under 0.3 s.
"""

import pickle
import statistics
import sys
import tempfile
from pathlib import Path

from timing import ROOT, seconds

from grader.course import cases, catalog

SOLUTION = ROOT / "solutions" / "p06_mini_gpt.py"
GRADE = [sys.executable, "-m", "grader"]

BARE = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
import jax, jax.numpy as jnp
from flax import nnx
from p06_mini_gpt import MiniGPT, mini_gpt_forward
gradients = sys.argv[3] == "gradients"
for group, case in pickle.load(open(sys.argv[2], "rb")):
    shape = [case[name] for name in ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers")]
    if group == "entry":
        mini_gpt_forward(case["seed"], jnp.asarray(case["token_ids"]), *shape).block_until_ready()
        continue
    model = MiniGPT(*shape, max_T=len(case["context_ids"]), rngs=nnx.Rngs(case["seed"]))
    ids = jnp.asarray(case["token_ids"])
    logits = model(ids).block_until_ready()
    if gradients:
        jax.block_until_ready(nnx.grad(lambda model: jnp.sum(model(ids) * logits))(model))
"""
FLOOR = "import jax, flax.nnx, jax.numpy as jnp; jax.jit(lambda x: x + 1)(jnp.ones(3)).block_until_ready()"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    problem = catalog.find("06")
    drawn = [(group, dict(case.values)) for group in problem.cases for case in cases.draw(problem, group, 0)]
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases").write_bytes(pickle.dumps(drawn))
        bare = [sys.executable, "-c", BARE, str(SOLUTION.parent), str(Path(folder) / "cases")]
        grade = [*GRADE, "problem", "06", str(SOLUTION), "--json"]
        warm = str(Path(folder) / "warm")
        seconds(grade, GRADE_CACHE=warm)
        for number in range(rounds + 1):
            # The first round only warms the disk.
            for name, taken in {
                "grade, cold": seconds(grade, GRADE_CACHE=str(Path(folder) / f"cold{number}")),
                "bare script, outputs": seconds([*bare, "outputs"]),
                "bare script, outputs and gradients": seconds([*bare, "gradients"]),
                "grade, warm": seconds(grade, GRADE_CACHE=warm),
                "import and one jitted call": seconds([sys.executable, "-c", FLOOR]),
                "grade list": seconds([*GRADE, "list"]),
                "grade --help": seconds([*GRADE, "--help"]),
                "python -c pass": seconds([sys.executable, "-c", "pass"]),
            }.items():
                if number:
                    figures.setdefault(name, []).append(taken)
    for name, times in figures.items():
        print(f"{name:36} {statistics.median(times):6.2f} s   ({min(times):.2f} to {max(times):.2f}, {rounds} rounds)")

    def ratio(ours: str, theirs: str) -> float:
        return statistics.median(a / b for a, b in zip(figures[ours], figures[theirs], strict=True))

    print()
    for ours, theirs, bar in (
        ("grade, cold", "bare script, outputs and gradients", 0.35),
        ("grade, cold", "bare script, outputs", None),
        ("grade, warm", "import and one jitted call", 1.3),
    ):
        found = ratio(ours, theirs)
        verdict = "" if bar is None else f"   bar {bar}: {'met' if found <= bar else 'MISSED'}"
        print(f"{ours} / {theirs:36} {found:5.2f}{verdict}")
    slowest = max(*figures["grade list"], *figures["grade --help"])
    print(f"grade list, --help: at most {slowest:.2f} s {'':27} bar 0.30: {'met' if slowest < 0.3 else 'MISSED'}")


if __name__ == "__main__":
    main()
