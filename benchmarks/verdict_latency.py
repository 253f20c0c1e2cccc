"""A cold verdict on problem 06 against what a person would run instead, the commands that need no JAX, and each
problem.

    python benchmarks/verdict_latency.py [ROUNDS] [--smoke] [--write]
    python benchmarks/verdict_latency.py wrong [ROUNDS] [--smoke] [--write]
    python benchmarks/verdict_latency.py problems [--smoke] [--write]

Each grading is `grade problem 06` with an empty cache. A right file is compared with a bare script that imports JAX and
calls the same submission eagerly on the same cases, for its outputs and its gradients, since the checks need both. A
wrong one is compared with the import of JAX and Flax: once with a misconception that is named, once with none.

With `wrong`, wrong files of five problems are graded with an empty cache: one with a misconception, one with two, one
with none that is known.

With `problems`, the reference of each problem is graded with an empty cache and with a warm one. The bar is for an idle
machine of two cores.
"""

import pickle
import sys
import tempfile
from pathlib import Path

from learner import edited, edits, with_two_ideas, write_sources
from timing import GRADE, IMPORT, Run, in_turn, seconds

from grader.course import cases, catalog
from grader.problem import Problem

BARE = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
import jax, jax.numpy as jnp
from flax import nnx
from p06_mini_gpt import MiniGPT, mini_gpt_forward
for group, case in pickle.load(open(sys.argv[2], "rb")):
    shape = [case[name] for name in ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers")]
    if group == "entry":
        mini_gpt_forward(case["seed"], jnp.asarray(case["token_ids"]), *shape).block_until_ready()
        continue
    model = MiniGPT(*shape, max_T=len(case["context_ids"]), rngs=nnx.Rngs(case["seed"]))
    ids = jnp.asarray(case["token_ids"])
    logits = model(ids).block_until_ready()
    jax.block_until_ready(nnx.grad(lambda model: jnp.sum(model(ids) * logits))(model))
"""
LONGEST, SLOW = 6.0, {16, 26, 27, 32}  # seconds; problems that save checkpoints, read files or train
WRONG = ("02", "06", "22", "43", "57")
WITHOUT_JAX = (("list",), ("--help",), ("next",), ("show", "06"))


def each_problem(run: Run) -> None:
    """Times each problem once, since so many even out."""
    floor, ratios = min(seconds(IMPORT) for _ in range(3)), []
    for problem in catalog.problems()[: 1 if run.smoke else None]:
        command = [*GRADE, "problem", problem.label, str(catalog.solution_path(problem))]
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (seconds(command, GRADE_CACHE=cache) for _ in range(2))
        ratios.append(cold / floor)
        run.figure(f"{problem.label}, cold", cold, "s", at_most=None if problem.number in SLOW else LONGEST)
        run.figure(f"{problem.label}, warm", warm, "s")
    run.figure("cold / import, over the problems", ratios)


def wrong_files(run: Run) -> None:
    """Times verdicts on wrong files of several problems, which most gradings are of."""
    numbers = WRONG[:1] if run.smoke else WRONG
    for problem in map(catalog.find, numbers):
        right, named = next(edits(problem))
        texts = {"right": right, "named": named, "two": with_two_ideas(problem), "unnamed": edited(problem, 1.5)}
        with tempfile.TemporaryDirectory() as folder:
            for kind, text in texts.items():
                write_sources({**catalog.reference_sources(problem), problem.name: text}, Path(folder) / kind)

            def cold(kind: str, problem: Problem = problem, folder: str = folder) -> float:
                command = [*GRADE, "problem", problem.label, f"{folder}/{kind}/{problem.name}.py", "--json"]
                return seconds(command, codes=(kind != "right",), GRADE_CACHE=tempfile.mkdtemp(dir=folder))

            kinds = {kind: lambda kind=kind: cold(kind) for kind in texts}
            times = in_turn(kinds | {"import": lambda: seconds(IMPORT)}, run.rounds(3))
        for name, bar in (("right", None), ("named", 2.0), ("two", 2.5), ("unnamed", 2.5)):
            ratios = [a / b for a, b in zip(times[name], times["import"], strict=True)]
            run.figure(f"{problem.label}, {name} / import", ratios, at_most=bar)


def against_others(run: Run) -> None:
    """Times verdicts on problem 06, and commands."""
    problem = catalog.find("06")
    drawn = [(group, dict(case.values)) for group in problem.cases for case in cases.draw(problem, group, 0)]
    right, named = next(edits(problem))
    texts = {"right": right, "named": named, "unnamed": edited(problem, 1.5)}
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        (top / "cases").write_bytes(pickle.dumps(drawn))
        for kind, text in texts.items():
            write_sources({**catalog.reference_sources(problem), problem.name: text}, top / kind)

        def cold(kind: str, code: int = 1) -> float:
            command = [*GRADE, "problem", "06", str(top / kind / f"{problem.name}.py"), "--json"]
            return seconds(command, codes=(code,), GRADE_CACHE=tempfile.mkdtemp(dir=folder))

        times = in_turn(
            {
                "right": lambda: cold("right", 0),
                "bare script": lambda: seconds([sys.executable, "-c", BARE, str(top / "right"), str(top / "cases")]),
                "wrong, named": lambda: cold("named"),
                "wrong, unnamed": lambda: cold("unnamed"),
                "import": lambda: seconds(IMPORT),
            }
            | {" ".join(["grade", *words]): lambda w=words: seconds([*GRADE, *w]) for words in WITHOUT_JAX},
            run.rounds(5),
        )
    run.ratio(times, "right", "bare script", at_most=0.20)
    run.ratio(times, "wrong, named", "import", at_most=2.0)
    run.ratio(times, "wrong, unnamed", "import", at_most=2.5)
    for name, each in times.items():
        run.figure(name, each, "s", at_most=0.2 if name.startswith("grade") else None)


def main() -> None:
    run = Run()
    modes = {"problems": each_problem, "wrong": wrong_files}
    next((modes[word] for word in run.words if word in modes), against_others)(run)
    run.end()


if __name__ == "__main__":
    main()
