"""Times a verdict, compared with what a person would run instead. All times come from one interleaved run.

    python benchmarks/verdict_latency.py [ROUNDS] [--smoke]

cold    `grade problem 06` with an empty cache, compared with a bare script that imports JAX and calls the same submission eagerly
        on the same cases, for its outputs and its gradients (the checks need both). Bar: a ratio of at most 0.35.
warm    The same with a warm cache, compared with `import jax, flax.nnx` and one jitted call. Bar: a ratio of at most 1.3.
list    `grade list` and `grade --help`, in seconds; `python -c pass` for comparison. Bar: under 0.3 s.
"""

import pickle
import statistics
import sys
import tempfile
from pathlib import Path

from timing import ROOT, seconds, smoke

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
    only_smoke = smoke()
    rounds = 0 if only_smoke else int(sys.argv[1]) if len(sys.argv) > 1 else 5
    problem = catalog.find("06")
    drawn = [(group, dict(case.values)) for group in problem.cases for case in cases.draw(problem, group, 0)]
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases").write_bytes(pickle.dumps(drawn))
        bare = [sys.executable, "-c", BARE, str(SOLUTION.parent), str(Path(folder) / "cases")]
        grade = [*GRADE, "problem", "06", str(SOLUTION), "--json"]
        warm = str(Path(folder) / "warm")
        seconds(grade, GRADE_CACHE=warm)
        for number in range(rounds + 1):
            # Round 0 only warms the disk cache.
            for name, elapsed in {
                "grade, cold": seconds(grade, GRADE_CACHE=str(Path(folder) / f"cold{number}")),
                "bare script, outputs": seconds([*bare, "outputs"]),
                "bare script, outputs and gradients": seconds([*bare, "gradients"]),
                "grade, warm": seconds(grade, GRADE_CACHE=warm),
                "import and one jitted call": seconds([sys.executable, "-c", FLOOR]),
                "grade list": seconds([*GRADE, "list"]),
                "grade --help": seconds([*GRADE, "--help"]),
                "python -c pass": seconds([sys.executable, "-c", "pass"]),
            }.items():
                if number or only_smoke:
                    times.setdefault(name, []).append(elapsed)
    for name, each in times.items():
        print(f"{name:36} {statistics.median(each):6.2f} s   ({min(each):.2f} to {max(each):.2f}, {rounds} rounds)")

    def ratio(name: str, baseline: str) -> float:
        return statistics.median(a / b for a, b in zip(times[name], times[baseline], strict=True))

    print()
    for name, baseline, bar in (
        ("grade, cold", "bare script, outputs and gradients", 0.35),
        ("grade, cold", "bare script, outputs", None),
        ("grade, warm", "import and one jitted call", 1.3),
    ):
        measured = ratio(name, baseline)
        verdict = "" if bar is None else f"   bar {bar}: {'met' if measured <= bar else 'MISSED'}"
        print(f"{name} / {baseline:36} {measured:5.2f}{verdict}")
    slowest = max(*times["grade list"], *times["grade --help"])
    print(f"grade list, --help: at most {slowest:.2f} s {'':27} bar 0.30: {'met' if slowest < 0.3 else 'MISSED'}")


if __name__ == "__main__":
    main()
